#!/usr/bin/python3
"""`sluice doctor --server`: what it finds out about a session, and that what cannot be measured leaves the rest."""
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, Server, clean_environment, run, wait_until
from slow_way import SlowWay

SLUICE = f"{BUILD}/bin/sluice"
# What readers of the JSON rely on: present whatever happens.
KEYS = {"schema", "exit_status", "checks", "server", "versions", "clock", "session", "transport", "transports", "round_trip_us", "synchronize_us",
        "launches", "copies", "path", "prediction", "host", "not_measured"}
INSIDE = {
    "server": {"named", "address", "node", "tenant", "encrypted", "why_encrypted", "connect_us"},
    "versions": {"protocol", "opcode_table_hash", "sluice", "server_sluice", "driver", "cuda"},
    "clock": {"server_ahead_us", "uncertainty_us"},
    "session": {"id", "devices", "resumable"},
    "round_trip_us": {"count", "min", "p50", "p99"},
    "synchronize_us": {"count", "min", "p50", "p99"},
    "launches": {"count", "what", "posted_us", "done_us"},
    "path": {"interface", "mtu_bytes", "interface_mtu_bytes", "interface_mbit_s", "segment_bytes", "rtt_us", "rtt_variation_us", "rtt_min_us",
             "congestion_window", "congestion_control", "segments_sent", "retransmitted", "is_loopback"},
    "prediction": {"launch_us", "launch_sustained_us", "synchronize_us", "to_device_ms_per_gb", "to_host_ms_per_gb", "derived_from"},
    "host": {"kernel", "load_average", "locked_bytes_max", "files_max", "address_space_bytes_max", "file_bytes_max", "shm_bytes",
             "shm_free_bytes", "cpus_usable", "cpus_online", "cpu_quota", "huge_page_bytes", "huge_pages", "huge_pages_free",
             "transparent_huge_pages", "io_uring", "io_uring_problem", "seccomp", "rdma_devices"},
}
LISTS = {"checks": {"state", "what", "text", "advice"}, "transports": {"name", "used", "why"}, "copies": {"direction", "bytes", "count", "gb_per_s"}}
MIB = 1 << 20


def doctor(*words, env=None, prefix=()):
    return subprocess.run([*prefix, SLUICE, "doctor", *words], env=clean_environment(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=240, check=False)


class DoctorCase(unittest.TestCase):
    @classmethod
    def serve(cls, **options):
        cls.server = Server(**options)
        cls.addClassCleanup(cls.server.close)
        cls.account = ("--tenant", "a", "--token-file", cls.server.token)

    def report(self, address, *words, code=0, **options):
        out = doctor("--server", address, *self.account, *words, "-o", "json", **options)
        self.assertEqual(code, out.returncode, out.stdout + out.stderr)
        found = json.loads(out.stdout)
        self.check_keys(found)
        self.assertEqual(code, found["exit_status"])
        return found

    def check_keys(self, found):
        self.assertEqual(KEYS, set(found))
        for key, inner in INSIDE.items():
            if found[key] is not None:
                self.assertEqual(inner, set(found[key]), key)
        for key, inner in LISTS.items():
            for one in found[key]:
                self.assertEqual(inner, set(one), key)

    @staticmethod
    def warnings(found, what):
        return [check for check in found["checks"] if check["state"] == "warning" and check["what"] == what]

    @staticmethod
    def problems(found):
        return " ".join(check["text"] for check in found["checks"] if check["state"] == "problem")

    def why_not(self, found, transport):
        verdict = next(t for t in found["transports"] if t["name"] == transport)
        self.assertFalse(verdict["used"])
        return verdict["why"]

    def check_measurements(self, found):
        for key in ("round_trip_us", "synchronize_us"):
            trips = found[key]
            self.assertGreaterEqual(trips["count"], 5)
            self.assertTrue(0 < trips["min"] <= trips["p50"] <= trips["p99"], trips)
        copies = {(c["direction"], c["bytes"]): c["gb_per_s"] for c in found["copies"]}
        # On a machine that crawls the large ones are left out, and that is said.
        left_out = [what for what in found["not_measured"] if "copies of 64 MiB: each would take" in what]
        self.assertEqual(left_out, found["not_measured"])
        largest = MIB if left_out else 64 * MIB
        self.assertEqual({(way, size) for way in ("to_device", "to_host") for size in (MIB, largest)}, set(copies))
        launches = found["launches"]
        self.assertIn("empty kernel", launches["what"])
        self.assertLessEqual(launches["posted_us"], launches["done_us"])
        expected = found["prediction"]
        self.assertEqual((launches["posted_us"], launches["done_us"], found["synchronize_us"]["p50"]),
                         (expected["launch_us"], expected["launch_sustained_us"], expected["synchronize_us"]))
        self.assertAlmostEqual(1e3, expected["to_device_ms_per_gb"] * copies["to_device", largest], places=3)
        self.assertAlmostEqual(1e3, expected["to_host_ms_per_gb"] * copies["to_host", largest], places=3)


class OnThisHost(DoctorCase):
    @classmethod
    def setUpClass(cls):
        cls.serve()

    def test_a_session_over_shared_memory_is_measured(self):
        found = self.report(self.server.unix)
        self.assertEqual("shm", found["transport"])
        for transport, word in (("unix", "faster"), ("tcp", "UNIX socket"), ("ucx", "UNIX socket")):
            self.assertIn(word, self.why_not(found, transport))
        self.assertIsNone(found["path"])
        self.assertFalse(found["server"]["encrypted"])
        self.check_measurements(found)
        self.assertTrue(wait_until(lambda: not self.server.ask("ps")), "its session stays behind")

    def test_versions_and_clock_are_compared(self):
        found = self.report(self.server.unix)
        self.assertEqual(found["versions"]["sluice"], found["versions"]["server_sluice"])
        self.assertIn(found["versions"]["sluice"], run(SLUICE, "--version").stdout)
        self.assertGreaterEqual(found["versions"]["cuda"], found["versions"]["driver"])
        # Both ends read the same clock here: the answer was made between question and answer.
        self.assertLessEqual(abs(found["clock"]["server_ahead_us"]), found["clock"]["uncertainty_us"] + 1)

    def test_a_session_over_tcp_knows_its_path(self):
        found = self.report(self.server.tcp)
        self.assertEqual("tcp", found["transport"])
        self.assertEqual(self.server.tcp, found["server"]["address"])
        self.check_measurements(found)
        self.assertEqual("lo", found["path"]["interface"])
        self.assertTrue(found["path"]["is_loopback"])
        for key in ("mtu_bytes", "segment_bytes", "rtt_us", "congestion_window", "segments_sent"):
            self.assertGreater(found["path"][key], 0, key)
        self.assertIn("unix:PATH", self.why_not(found, "shm"))
        self.assertIn("unix:PATH", self.warnings(found, "transport")[0]["advice"])

    def test_the_chosen_transport_is_the_reason(self):
        found = self.report(self.server.unix, "--transport", "unix")
        self.assertEqual("unix", found["transport"])
        self.assertIn("unix was chosen", self.why_not(found, "shm"))
        found = self.report(self.server.tcp, env={"SLUICE_TRANSPORT": "tcp"})
        self.assertIn("tcp was chosen", self.why_not(found, "ucx"))

    def test_a_limit_that_is_in_the_way_of_shared_memory_is_named(self):
        found = self.report(self.server.unix, prefix=("bash", "-c", 'ulimit -f 8; exec "$0" "$@"'))
        self.assertEqual("unix", found["transport"])
        self.assertIn("ulimit -f", self.why_not(found, "shm"))
        self.assertIn("ulimit -f unlimited", self.warnings(found, "file size")[0]["advice"])

    def test_a_chosen_transport_that_fails_leaves_no_session_and_says_why(self):
        found = self.report(self.server.unix, "--transport", "shm", code=3, prefix=("bash", "-c", 'ulimit -f 8; exec "$0" "$@"'))
        self.assertIn("ulimit -f", self.problems(found))
        self.assertIsNone(found["session"])
        self.assertGreater(found["host"]["cpus_online"], 0)

    def test_an_emulated_way_shows_in_what_is_measured(self):
        for words, options in (((), {"env": {"SLUICE_EMULATE": "rtt=30ms"}}), (("--emulate", "rtt=30ms"), {})):
            found = self.report(self.server.tcp, *words, **options)
            self.assertGreaterEqual(found["round_trip_us"]["min"], 30_000)
        found = self.report(self.server.unix, "--emulate", "rtt=1ms")
        self.assertEqual("unix", found["transport"])
        self.assertIn("emulated", self.why_not(found, "shm"))
        self.assertEqual([], self.warnings(found, "transport"))

    def test_a_link_that_cannot_be_emulated_is_a_mistake(self):
        for words in (("--emulate", "rtt=fast"), ("--emulate", "rtt=1ms", "--transport", "shm")):
            self.assertIn("--emulate", self.problems(self.report(self.server.unix, *words, code=2)))

    def test_limits_of_this_host_are_judged(self):
        found = self.report(self.server.unix, "--no-measure", prefix=("bash", "-c", 'ulimit -n 200; exec "$0" "$@"'))
        self.assertEqual(200, found["host"]["files_max"])
        self.assertIn("ulimit -n", self.warnings(found, "nofile")[0]["advice"])
        found = self.report(self.server.unix, "--no-measure", prefix=("taskset", "-c", str(min(os.sched_getaffinity(0)))))
        self.assertEqual(1, found["host"]["cpus_usable"])
        self.assertEqual(1, len(self.warnings(found, "cpu")))

    def test_people_get_the_same_in_words(self):
        out = doctor("--server", self.server.tcp, *self.account)
        self.assertEqual(0, out.returncode, out.stdout + out.stderr)
        for word in ("ok       server         ", "encryption     no: the server is on loopback", "not shm: ", "round trip     min ", "to the device  1 MiB pieces",
                     "MTU ", "io_uring ", "hugepages ", "limits ", "a launch costs the program ", "a synchronisation costs ", "a GB to the device takes "):
            self.assertIn(word, out.stdout)
        end = out.stdout[out.stdout.index("What could be better:"):]
        self.assertRegex(end, r"transport: tcp .*\n    -> .*unix:PATH")
        self.assertEqual("", out.stderr)

    def test_without_measuring_no_session_is_made(self):
        before = self.server.log().count("session opened")
        found = self.report(self.server.unix, "--no-measure")
        self.assertEqual((None, None, []), (found["session"], found["round_trip_us"], found["copies"]))
        self.assertEqual(before, self.server.log().count("session opened"))
        self.report(self.server.unix)
        self.assertEqual(before + 1, self.server.log().count("session opened"))

    def test_a_wrong_token_is_a_problem_and_the_host_is_looked_at_all_the_same(self):
        self.account = ("--tenant", "a", "--token-file", self.server.write("wrong", "not-the-token\n"))
        found = self.report(self.server.unix, code=3)
        self.assertIn("wrong token", self.problems(found))
        self.assertIsNone(found["session"])
        self.assertGreater(found["host"]["cpus_online"], 0)

    def test_nobody_listens(self):
        self.assertIn("127.0.0.1:1", self.problems(self.report("127.0.0.1:1", code=3)))

    def test_a_transport_that_does_not_lead_to_the_server_is_a_mistake(self):
        self.assertIn("unix:PATH", self.problems(self.report(self.server.tcp, "--transport", "shm", code=2)))

    def test_help_explains_every_option_and_status(self):
        text = doctor("--help").stdout
        for word in ("--server", "--tenant", "--token-file", "--tls", "--transport", "--emulate", "--no-measure", "--output", "Exit status: 0", "docs/doctor.md"):
            self.assertIn(word, text)

    def test_without_memory_the_rest_is_measured(self):
        client = self.server.hold(250)
        found = self.report(self.server.unix)
        self.assertEqual({MIB}, {copy["bytes"] for copy in found["copies"]})
        self.assertIn("no memory left", found["not_measured"][0])
        self.assertIn("64 MiB", found["not_measured"][0])
        self.assertIsNotNone(found["round_trip_us"])
        self.assertIsNotNone(found["launches"])
        client.communicate("\n")

    def test_a_long_way_shows_in_what_is_measured(self):
        way = SlowWay(self.server.tcp, 0.030)
        self.addCleanup(way.close)
        found = self.report(way.address)
        self.assertGreaterEqual(found["round_trip_us"]["min"], 30_000)
        self.assertGreaterEqual(found["prediction"]["synchronize_us"], 30_000)
        self.assertGreaterEqual(found["synchronize_us"]["min"], 30_000)
        self.assertIn("far away", self.warnings(found, "round trip")[0]["advice"])


class TenantIsFull(DoctorCase):
    @classmethod
    def setUpClass(cls):
        cls.serve(rest="max_sessions = 1")

    def test_it_is_said(self):
        self.server.hold()
        self.assertIn("max_sessions", self.problems(self.report(self.server.unix, code=3)))


class Encrypted(DoctorCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.mkdtemp(prefix="sluice-doctor.")
        cls.addClassCleanup(shutil.rmtree, folder, ignore_errors=True)
        made = run(f"{BUILD}/bin/sluicectl", "cert", "init", folder, "--host", "127.0.0.1")
        if made.returncode != 0:
            raise RuntimeError(made.stderr)
        cls.trust = ("--tls-ca", f"{folder}/ca.crt")
        cls.serve(server=f'require_encryption = true\n[tls]\ncertificate = "{folder}/server.crt"\nkey = "{folder}/server.key"')

    def test_an_encrypted_session_is_measured_and_says_why_it_is(self):
        found = self.report(self.server.tcp, *self.trust)
        self.assertTrue(found["server"]["encrypted"])
        self.assertIn("--tls-ca", found["server"]["why_encrypted"])
        self.assertEqual("tcp+tls", found["transport"])
        self.assertEqual(["tcp"], [one["name"] for one in found["transports"] if one["used"]])
        self.assertIn("encrypts nothing", self.why_not(found, "ucx"))
        self.check_measurements(found)
        self.assertIsNotNone(found["path"])

    def test_a_server_that_requires_encryption_says_so_to_a_plain_client(self):
        self.assertIn("encrypted connections only", self.problems(self.report(self.server.tcp, code=3)))
        self.assertEqual("shm", self.report(self.server.unix)["transport"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
