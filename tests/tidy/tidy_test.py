#!/usr/bin/python3
"""tidy.py finds what it is there to find: each rule is broken once in a small tree of its own."""
import os
import subprocess
import sys
import tempfile
import unittest

TIDY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tidy.py")


class Tidy(unittest.TestCase):
    def run_on(self, files):
        with tempfile.TemporaryDirectory() as root:
            files = {"docs/configuration.md": "SLUICE_KNOWN\n", **files}
            for name, text in files.items():
                path = os.path.join(root, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as out:
                    out.write(text)
            subprocess.run(["git", "init", "-q", root], check=True)
            subprocess.run(["git", "-C", root, "add", "-A"], check=True)
            return subprocess.run([sys.executable, TIDY, root, "--no-format"], capture_output=True, text=True, check=False)

    def assert_finds(self, files, message):
        run = self.run_on(files)
        self.assertEqual(1, run.returncode, run.stdout + run.stderr)
        self.assertIn(message, run.stdout)

    def test_accepts_a_clean_tree(self):
        run = self.run_on({"common/a.cpp": '#include "common/b.h"\nint a;\n', "README.md": "[x](docs/configuration.md)\n"})
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)

    def test_finds_long_files(self):
        self.assert_finds({"common/a.cpp": "int a;\n" * 900}, "limit 800")

    def test_finds_includes_that_point_the_wrong_way(self):
        self.assert_finds({"transport/a.cpp": '#include "shim/call.h"\n'}, "transport must not include shim")

    def test_finds_untyped_todos(self):
        self.assert_finds({"shim/a.cpp": "// TO" + "DO: later\n"}, "TODO must be")

    def test_finds_output_on_stdout_in_libraries(self):
        self.assert_finds({"server/a.cpp": "std::cout << 1;\n"}, "std::cout")

    def test_finds_trailing_space(self):
        self.assert_finds({"server/a.cpp": "int a; \n"}, "trailing space")

    def test_finds_undocumented_environment_variables(self):
        self.assert_finds({"shim/a.cpp": 'auto* x = std::getenv("SLUICE_SECRET_SWITCH");\n'}, "SLUICE_SECRET_SWITCH")

    def test_finds_broken_links(self):
        self.assert_finds({"README.md": "[x](docs/nowhere.md)\n"}, "docs/nowhere.md")


if __name__ == "__main__":
    unittest.main()
