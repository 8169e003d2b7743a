#!/usr/bin/python3
"""`sluice smi`: the slice as nvidia-smi would show it, and every way to ask wrongly. As tests/tools/harness.py."""
import csv
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../tools")]
from harness import BUILD, Server, clean_environment, run, wait_until  # noqa: E402

SLUICE = f"{BUILD}/bin/sluice"
MIB = 1 << 20


class SmiCase(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.close)

    def smi(self, *words, code=0, address=None):
        out = run(SLUICE, "smi", "--server", address or self.server.unix, "--tenant", "a", "--token-file", self.server.token, *words)
        self.assertEqual(code, out.returncode, out.stdout + out.stderr)
        return out.stdout if code == 0 else out.stderr

    def rows(self, *words):
        return list(csv.reader(self.smi(*words).splitlines(), skipinitialspace=True))


class Table(SmiCase):
    def test_the_table_shows_the_slice_and_its_sessions(self):
        client = self.server.hold(40, "idle")
        text = self.smi()
        used = self.server.session_of(client)["memory_bytes"] // MIB
        self.assertIn(f"{used}MiB / 256MiB", text)
        self.assertRegex(text, rf"\| +0 +{client.pid} +\S+ +\S*fault_hold +{used}MiB")
        self.assertIn("Tenant: a", text)
        self.assertIn("0% - 100%, x1", text)
        self.assertEqual(1, len({len(line) for line in text.splitlines() if line}), text)
        client.communicate("\n", timeout=60)
        self.assertTrue(wait_until(lambda: "None" in self.smi()))
        self.assertIn(" 0MiB / 256MiB", self.smi())

    def test_it_makes_no_session(self):
        self.smi()
        self.assertEqual([], self.server.ask("ps"))

    def test_the_list_names_the_devices(self):
        self.assertRegex(self.smi("-L"), r"^GPU 0: .+ \(UUID: GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)\n$")

    def test_over_tcp(self):
        self.assertIn("GPU 0", self.smi("-L", address=self.server.tcp))

    def test_inside_sluice_run_the_environment_is_enough(self):
        out = run(SLUICE, "run", "--local", "--memory", "96MiB", "--", SLUICE, "smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits")
        self.assertEqual("96\n", out.stdout, out.stderr)


class Query(SmiCase):
    def test_fields_come_in_the_order_of_the_question(self):
        header, row = self.rows("--query-gpu=memory.total,index,name,utilization.gpu,temperature.gpu", "--format=csv")
        self.assertEqual(["memory.total [MiB]", "index", "name", "utilization.gpu [%]", "temperature.gpu"], header)
        self.assertEqual(["256 MiB", "0", "0 %", "[N/A]"], [row[0], row[1], row[3], row[4]])
        plain = self.rows("--query-gpu", "memory.total,memory.free,count", "--format", "csv,noheader,nounits")
        self.assertEqual([["256", "256", "1"]], plain)

    def test_all_fields_have_an_answer(self):
        lines = self.smi("--help-query-gpu").split("--query-compute-apps")[0].splitlines()
        fields = [line.split()[0] for line in lines if line.startswith("  ")]
        self.assertGreater(len(fields), 30)
        header, row = self.rows(f"--query-gpu={','.join(fields)}", "--format=csv")
        self.assertEqual((len(fields), len(fields)), (len(header), len(row)))
        self.assertNotIn("", row)

    def test_sessions_can_be_asked_for(self):
        self.assertEqual([["pid", "used_gpu_memory [MiB]"]], self.rows("--query-compute-apps=pid,used_memory", "--format=csv"))
        client = self.server.hold(40, "idle")
        used = self.server.session_of(client)["memory_bytes"] // MIB
        self.assertEqual([[str(client.pid), str(used)]],
                         self.rows("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"))
        client.communicate("\n", timeout=60)

    def test_a_device_can_be_chosen(self):
        uuid = self.rows("--query-gpu=uuid", "--format=csv,noheader")[0][0]
        for one in ("0", uuid):
            self.assertIn(uuid, self.smi("-L", "-i", one))
        self.assertIn("no such device", self.smi("-L", "-i", "7", code=2))

    def test_a_loop_goes_on_until_it_is_stopped(self):
        command = (SLUICE, "smi", "--server", self.server.unix, "--tenant", "a", "--token-file", self.server.token, "-l", "0.1",
                   "--query-gpu=memory.used", "--format=csv,nounits")
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=clean_environment()) as loop:
            lines = [loop.stdout.readline() for _ in range(4)]
            loop.terminate()
        self.assertEqual(["memory.used\n", "0\n", "0\n", "0\n"], lines)


class Refusals(SmiCase):
    def test_a_wrong_question_is_named(self):
        self.assertIn('did you mean "memory.total"', self.smi("--query-gpu=memory.totl", "--format=csv", code=2))
        self.assertIn("--format=csv", self.smi("--query-gpu=index", code=2))
        self.assertIn("expected csv", self.smi("--query-gpu=index", "--format=xml", code=2))
        self.assertIn("only one of", self.smi("-L", "--query-gpu=index", "--format=csv", code=2))
        self.smi("--no-such-option", code=2)

    def test_a_server_that_is_not_there_or_refuses_is_3(self):
        self.assertIn("unknown tenant", self.refused("nobody"))
        self.assertIn("/nonexistent", self.smi(address="unix:/nonexistent/socket", code=3))
        out = run(SLUICE, "smi")
        self.assertEqual(2, out.returncode)
        self.assertIn("no server named", out.stderr)

    def refused(self, tenant):
        out = run(SLUICE, "smi", "--server", self.server.unix, "--tenant", tenant, "--token-file", self.server.token)
        self.assertEqual(3, out.returncode, out.stderr)
        return out.stderr


if __name__ == "__main__":
    unittest.main()
