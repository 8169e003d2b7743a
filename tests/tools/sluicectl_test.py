#!/usr/bin/python3
"""An administrator at work: every command of sluicectl against a real server, with real programs."""
import json
import os
import signal
import subprocess
import unittest

from harness import BUILD, Server, run, wait_until
from somebody_else import NOBODY, copy_for_all

PROGRAM = os.environ["SLUICE_PROGRAM"]


class Case(unittest.TestCase):
    def serve(self, *options, **named):
        server = Server(*options, **named)
        self.addCleanup(server.close)
        return server

    def refused(self, outcome, code, *words):
        self.assertEqual(code, outcome.returncode, outcome.stdout + outcome.stderr)
        for word in words:
            self.assertIn(word, outcome.stderr)

    def accepted(self, outcome):
        self.assertEqual(0, outcome.returncode, outcome.stdout + outcome.stderr)
        return outcome.stdout


class Tenants(Case):
    def test_a_new_tenant_with_a_new_token_runs_a_program(self):
        server = self.serve()
        self.accepted(server.ctl("tenant", "set", "lab", "--memory", "64MiB", "--max-sessions", "2", "--idle-timeout", "10m", "--max-duration", "8h"))
        token = server.write("lab.token", self.accepted(server.ctl("token", "new", "lab")))
        client = [f"{BUILD}/bin/sluice", "run", "--server", server.unix, "--tenant", "lab", "--token-file", token, "--", PROGRAM]
        self.assertIn("sums correct", self.accepted(run(*client)))
        shown = server.ask("tenant", "show", "lab")
        self.assertEqual((64 << 20, 2, 600_000, 28_800_000, True, "sluicectl"),
                         (shown["memory_limit_bytes"], shown["max_sessions"], shown["idle_timeout_ms"], shown["max_duration_ms"],
                          shown["has_token"], shown["source"]))
        self.accepted(server.ctl("token", "revoke", "lab"))
        self.refused(run(*client), 3, "wrong token")
        self.accepted(server.ctl("tenant", "rm", "lab"))
        self.refused(run(*client), 3, "unknown tenant")
        self.refused(server.ctl("tenant", "show", "lab"), 1, "no tenant \"lab\"")

    def test_changes_survive_a_restart_and_win_over_the_file_key_by_key(self):
        server = self.serve()
        self.accepted(server.ctl("tenant", "set", "a", "--max-sessions", "3"))
        self.assertEqual(0, server.stop())
        server.start()
        shown = server.ask("tenant", "show", "a")
        self.assertEqual((3, 256 << 20, "both"), (shown["max_sessions"], shown["memory_limit_bytes"], shown["source"]))

    def test_the_list_is_a_table_or_json(self):
        server = self.serve()
        table = self.accepted(server.ctl("tenant", "list"))
        self.assertRegex(table, r"TENANT +MEMORY +USED")
        self.assertRegex(table, r"a +256 MiB +0 B +any +1 +standard +0 +0/64 +none +none +yes +file")
        self.assertEqual(["a"], [t["name"] for t in server.ask("tenant", "list")])

    def test_mistakes_are_named(self):
        server = self.serve()
        self.refused(server.ctl("tenant", "set", "a", "--memory", "4Gib5"), 2, "4Gib5")
        self.refused(server.ctl("tenant", "set", "a", "--idle-timeout", "soon"), 2, "soon", "10m")
        self.refused(server.ctl("tenant", "set", "a b"), 2, "\"a b\"")
        self.refused(server.ctl("token", "new", "nobody"), 1, "nobody")
        self.refused(server.ctl("tenant", "paint", "a"), 2)
        self.refused(server.ctl("tenant", "set", "a", "--max-duration", "0s"), 2, "--max-duration", "\"none\"")
        self.refused(run(f"{BUILD}/bin/sluicectl", "ps"), 3, "--socket")


    def test_a_dead_socket_is_named_with_what_leads_to_another(self):
        server = self.serve()
        self.assertEqual(0, server.stop())
        for path in (server.control, f"{server.folder}/none", server.write("file", "")):
            out = run(f"{BUILD}/bin/sluicectl", "ps", "--socket", path)
            self.refused(out, 3, path, "start sluiced", "--socket", "SLUICE_CONTROL")
            self.assertNotIn("SLUICE_SERVER", out.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs another user")
    def test_a_socket_of_somebody_else_is_named_with_whom_to_ask(self):
        server = self.serve()
        os.chmod(server.folder, 0o755)
        out = subprocess.run([copy_for_all(f"{BUILD}/bin/sluicectl"), "--socket", server.control, "ps"], user=NOBODY, stderr=subprocess.PIPE,
                             text=True, check=False)
        self.assertEqual(3, out.returncode, out.stderr)
        self.assertIn("[control]", out.stderr)


class Usage(Case):
    def used(self, server, *options):
        rows = server.ask("usage", *options)
        return rows[0] if rows else None

    def client(self, server):
        return [f"{BUILD}/bin/sluice", "run", "--server", server.unix, "--tenant", "a", "--token-file", server.token, "--", PROGRAM]

    def test_usage_is_there_after_a_stop_and_after_kill_9(self):
        server = self.serve()
        self.assertEqual([], server.ask("usage"))
        self.accepted(run(*self.client(server)))
        self.assertTrue(wait_until(lambda: server.ask("ps") == []))
        first = self.used(server)
        self.assertEqual("a", first["tenant"])
        self.assertGreater(first["gpu_seconds"], 0)
        self.assertGreater(first["gib_hours"], 0)
        self.assertEqual(0, server.stop())
        server.start()
        self.assertEqual(first, self.used(server))
        self.accepted(run(*self.client(server)))
        self.assertTrue(wait_until(lambda: server.ask("ps") == []))
        second = self.used(server)  # and asking has it written
        self.assertGreater(second["gpu_seconds"], first["gpu_seconds"])
        server.process.kill()
        server.process.wait()
        server.start()
        self.assertEqual(second, self.used(server))

    def test_usage_is_grouped_as_asked_as_a_table_csv_or_json(self):
        server = self.serve()
        self.accepted(run(*self.client(server)))
        row = self.used(server, "--by", "day,tenant,gpu", "--json")
        self.assertRegex(row["period"], r"^20\d\d-\d\d-\d\d$")
        self.assertRegex(row["gpu"], r"^GPU-[0-9a-f-]{36}$")
        lines = self.accepted(server.ctl("usage", "--by", "hour,tenant", "--csv")).splitlines()
        self.assertEqual("period,tenant,gpu_seconds,reserved_gpu_seconds,gib_hours,reserved_gib_hours", lines[0])
        self.assertRegex(lines[1], r"^20\d\d-\d\d-\d\dT\d\d:00Z,a,\d+\.\d{3},")
        self.assertRegex(self.accepted(server.ctl("usage")), r"TENANT +GPU SECONDS")
        self.assertEqual([], server.ask("usage", "--tenant", "nobody"))
        self.assertEqual([], server.ask("usage", "--from", "2020-02-01", "--to", "2020-03-01T05:00Z"))

    def test_mistakes_of_time_and_grouping_are_named(self):
        server = self.serve()
        self.refused(server.ctl("usage", "--from", "yesterday"), 2, "--from", "yesterday", "2026-11-30")
        self.refused(server.ctl("usage", "--from", "2026-02-31"), 2, "2026-02-31")
        self.refused(server.ctl("usage", "--to", "2026-11-30T10:30"), 2, "whole hours")
        self.refused(server.ctl("usage", "--from", "2026-11-30", "--to", "2026-11-29"), 2, "later")
        self.refused(server.ctl("usage", "--by", "tenant,week"), 2, "week", "month")
        self.refused(server.ctl("usage", "--by", "day,hour"), 2, "only one")
        self.refused(server.ctl("usage", "--csv", "--json"), 2, "--csv")


class Sessions(Case):
    def test_ps_shows_what_a_session_holds(self):
        server = self.serve()
        client = server.hold(40)
        session = server.session_of(client)
        self.assertEqual(("a", "open"), (session["tenant"], session["state"]))
        self.assertGreaterEqual(session["memory_bytes"], 40 << 20)
        table = self.accepted(server.ctl("ps"))
        self.assertIn(os.path.basename(os.environ["SLUICE_HOLD"]), table)
        self.assertIn("SESSION", table)

    def test_kill_ends_one_session_and_its_program_gets_an_error(self):
        server = self.serve()
        doomed, other = server.hold(), server.hold()
        self.accepted(server.ctl("kill", str(server.session_of(doomed)["id"])))
        self.assertTrue(doomed.stdout.readline().startswith("failed CUDA_ERROR_"))
        self.assertIsNotNone(server.session_of(other))
        self.refused(server.ctl("kill", "999"), 1, "no session 999")
        self.refused(server.ctl("kill"), 2, "--tenant")
        self.assertEqual({"ended": 1}, server.ask("kill", "--tenant", "a"))
        self.assertTrue(wait_until(lambda: server.ask("ps") == []))

    def test_top_shows_each_session_once_or_until_interrupted(self):
        server = self.serve()
        server.hold(40)
        text = self.accepted(server.ctl("top", "--once", "--interval", "50ms"))
        self.assertRegex(text, r"device 0 .*: \d+.* in use")
        self.assertIn("GPU %", text)
        look = server.ask("top", "--once", "--interval", "50ms")
        self.assertEqual(1, len(look["sessions"]))
        self.assertIn("gpu_percent", look["sessions"][0])
        with subprocess.Popen([f"{BUILD}/bin/sluicectl", "--socket", server.control, "top", "--interval", "20ms"],
                              stdout=subprocess.PIPE, text=True) as live:
            titles = 0
            while titles < 3:
                titles += "GPU %" in live.stdout.readline()
            live.send_signal(signal.SIGINT)

    def test_an_idle_session_is_ended_and_one_that_works_or_waits_is_not(self):
        server = self.serve()
        waiting = server.hold(10, "waiting")  # in one call for all of the test
        working, idle = server.hold(), server.hold(10, "idle")
        self.accepted(server.ctl("tenant", "set", "a", "--idle-timeout", "2s"))
        self.assertTrue(wait_until(lambda: server.session_of(idle) is None))
        out, _ = idle.communicate("\n", timeout=30)
        self.assertTrue(out.startswith("failed CUDA_ERROR_"), out)
        for other in (working, waiting):
            self.assertIsNotNone(server.session_of(other))
            out, err = other.communicate("\n", timeout=30)
            self.assertEqual(0, other.returncode, out + err)
        self.assertIn("idle_timeout of tenant \"a\"", server.log())


class Reload(Case):
    def test_sighup_and_sluicectl_read_the_file_again(self):
        server = self.serve()
        server.write("sluiced.toml", server.config_text(rest=f'[[tenant]]\nname = "b"\ntoken_file = "{server.token}"\n'))
        self.assertIn("2 tenants", self.accepted(server.ctl("config", "reload")))
        server.write("sluiced.toml", server.config_text(rest=f'[[tenant]]\nname = "c"\ntoken_file = "{server.token}"\n'))
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: "c" in [t["name"] for t in server.ask("tenant", "list")]))
        self.assertNotIn("b", [t["name"] for t in server.ask("tenant", "list")])

    def test_a_bad_file_changes_nothing_and_is_named(self):
        server = self.serve()
        server.write("sluiced.toml", server.config_text(server="max_sesions = 3"))
        self.refused(server.ctl("config", "reload"), 2, "max_sesions", "did you mean \"max_sessions\"")
        server.process.send_signal(signal.SIGHUP)
        self.assertTrue(wait_until(lambda: server.log().count("the configuration stays as it is") == 2))
        self.assertEqual(["a"], [t["name"] for t in server.ask("tenant", "list")])

    def test_check_needs_no_server(self):
        server = self.serve()
        self.accepted(run(f"{BUILD}/bin/sluicectl", "config", "check", server.config))


class Stopping(Case):
    def test_the_summary_has_the_final_figures_of_running_programs(self):
        server = self.serve()
        client = server.hold(40)
        calls = server.session_of(client)["calls"]
        self.assertEqual(0, server.stop())
        with open(f"{server.folder}/stats", encoding="utf-8") as lines:
            text = lines.read()
        self.assertRegex(text, r'"memory_peak_bytes":[1-9]\d{7}')
        self.assertGreaterEqual(int(text.split('"calls":')[1].split(",")[0]), calls)

    def test_a_drained_server_lets_programs_finish(self):
        server = self.serve(server='drain_timeout = "1m"')
        client = server.hold()
        server.process.send_signal(signal.SIGTERM)
        self.assertTrue(wait_until(lambda: "1 sessions have 1m to end" in server.log()))
        out, err = client.communicate("\n", timeout=30)
        self.assertEqual(0, client.returncode, out + err)
        self.assertEqual(0, server.process.wait(30))


class Bench(Case):
    def test_the_promises_of_a_slice_are_measured_beside_a_device_without_quotas(self):
        outcome = run(f"{BUILD}/bin/sluicectl", "bench", "quota", "-o", "json")
        rows = json.loads(self.accepted(outcome))
        self.assertGreaterEqual(len(rows), 12)
        for row in rows:
            self.assertTrue(row["is_kept"], row)
        self.assertGreater([row["native"] for row in rows if row["promise"].startswith("unfairness")][0], 0.1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
