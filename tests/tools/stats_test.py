#!/usr/bin/python3
"""`sluice stats`: what a program's calls cost, with the places in it that waited."""
import json
import os
import subprocess
import unittest

from harness import BUILD, Server, run

SLUICE = f"{BUILD}/bin/sluice"
PROGRAM = os.environ["SLUICE_PROGRAM"]


class Stats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.close)
        cls.on_server = ("--server", cls.server.unix, "--tenant", "a", "--token-file", cls.server.token)

    def stats(self, *words, env=None):
        return run(SLUICE, "stats", *words, env=env)

    def test_a_program_is_run_and_its_calls_are_shown(self):
        out = self.stats(*self.on_server, "--", PROGRAM)
        self.assertEqual(0, out.returncode, out.stderr)
        self.assertIn("sums correct", out.stdout)
        self.assertNotIn("WAITED", out.stdout)
        self.assertRegex(out.stderr, r"WAITED ms +WAITS +CALLS +BYTES +CLASS +FUNCTION")
        self.assertRegex(out.stderr, r"\d+\.\d{3} +\d+ +\d+ +\d+ +called +cuModuleLoadData")
        # The program exports nothing: its own symbol table names the place.
        self.assertRegex(out.stderr, r"cuModuleLoadData +driver_vector_add\(main\+0x[0-9a-f]+\)")

    def test_json_adds_up_and_is_sorted(self):
        report = f"{self.server.folder}/report.json"
        out = self.stats(*self.on_server, "-o", "json", "--to", report, "--", "/bin/sh", "-c", f"{PROGRAM}; {PROGRAM}; exit 5")
        self.assertEqual(5, out.returncode, out.stderr)
        with open(report, encoding="utf-8") as text:
            all_ = json.load(text)
        self.assertEqual(2, len(all_["processes"]))
        waited = [f["waited_us"] for f in all_["functions"]]
        self.assertEqual(sorted(waited, reverse=True), waited)
        load = next(f for f in all_["functions"] if f["function"] == "cuModuleLoadData")
        self.assertEqual((2, 2, "called"), (load["calls"], load["waits"], load["class"]))
        self.assertEqual(sum(p["calls"] for p in all_["processes"]), sum(f["calls"] for f in all_["functions"]))

    def test_files_are_shown_and_sorted_as_asked(self):
        path = f"{self.server.folder}/one.json"
        env = {"SLUICE_STATS": path}
        self.assertEqual(0, run(SLUICE, "run", *self.on_server, "--", PROGRAM, env=env).returncode)
        calls = json.loads(self.stats("-o", "json", "--sort", "calls", path).stdout)["functions"]
        self.assertEqual(sorted((f["calls"] for f in calls), reverse=True), [f["calls"] for f in calls])
        short = self.stats("--lines", "1", path)
        self.assertIn(f"... and {len(calls) - 1} functions more", short.stdout)

    def test_mistakes_are_named(self):
        wrong = self.server.write("wrong.json", "calls: 3\n")
        for words, said in ((("/nonexistent/x.json",), "no file /nonexistent/x.json"), ((self.server.folder,), "is a folder"), ((wrong,), "wrong.json:1"),
                            ((self.server.write("empty.json", ""),), "no statistics"), ((), "name files"),
                            ((wrong, "--", PROGRAM), "not both"), (("--local", "--to", "/nonexistent/report", "--", PROGRAM), "/nonexistent/report"), (("--sort", "size", wrong), "size")):
            out = self.stats(*words)
            self.assertEqual(2, out.returncode, out.stderr)
            self.assertIn(said, out.stderr)

    def test_a_server_of_ones_own_will_do(self):
        out = self.stats("--local", "--sort", "bytes", "--lines", "1", "--", PROGRAM)
        self.assertEqual(0, out.returncode, out.stderr)
        self.assertRegex(out.stderr, r"FUNCTION\n.* cuMemcpy\w+\n\.\.\. and \d+ functions more")

    def test_a_stripped_program_leaves_the_offset(self):
        stripped = f"{self.server.folder}/stripped"
        subprocess.run(["strip", "-o", stripped, PROGRAM], check=True)
        self.assertRegex(self.stats(*self.on_server, "--", stripped).stderr, r"cuModuleLoadData +stripped\(\+0x[0-9a-f]+\)")

    def test_a_program_without_cuda_says_so(self):
        out = self.stats(*self.on_server, "--", "/bin/sh", "-c", "exit 7")
        self.assertEqual(7, out.returncode)
        self.assertIn("no process made CUDA calls", out.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
