#!/usr/bin/env python3
"""clang-tidy over many files, of which those are left out that were clean before and are the same since.

usage: clang_tidy.py BUILD_FOLDER [FILE...]     (no FILE: names on stdin, separated by NUL)

BUILD_FOLDER has compile_commands.json. A file is the same if what the preprocessor makes of it (with comments: NOLINT is one), the
checks and clang-tidy are; that is remembered in BUILD_FOLDER/clean. Environment: SLUICE_LINT_CHECKS (more checks),
SLUICE_LINT_ALL=1 (leave nothing out).
"""
import concurrent.futures
import hashlib
import json
import os
import shlex
import subprocess
import sys

TIDY = "clang-tidy-19"


def preprocess(command):
    """Its output, or nothing if that cannot be had: the file is then looked at."""
    words = shlex.split(command["command"])
    at = words.index("-o")
    words = [w for w in words[:at] + words[at + 2:] if w != "-c"]
    done = subprocess.run(words + ["-E", "-C"], cwd=command["directory"], capture_output=True)
    return done.stdout if done.returncode == 0 else None


class Linter:
    def __init__(self, build):
        self.build = build
        self.clean = os.path.join(build, "clean")
        os.makedirs(self.clean, exist_ok=True)
        with open(os.path.join(build, "compile_commands.json")) as f:
            self.commands = {os.path.realpath(os.path.join(c["directory"], c["file"])): c for c in json.load(f)}
        self.checks = "--checks=" + os.environ.get("SLUICE_LINT_CHECKS", "")
        version = subprocess.run([TIDY, "--version"], capture_output=True, check=True).stdout
        with open(".clang-tidy", "rb") as f:
            self.salt = version + self.checks.encode() + f.read()

    def key(self, file):
        command = self.commands.get(os.path.realpath(file))
        text = preprocess(command) if command else None
        return hashlib.sha256(self.salt + file.encode() + text).hexdigest() if text is not None else None

    def lint(self, file):
        """(was looked at, is clean, what clang-tidy says)"""
        key = self.key(file)
        mark = os.path.join(self.clean, key) if key else None
        if mark and os.path.exists(mark) and not os.environ.get("SLUICE_LINT_ALL"):
            return False, True, ""
        done = subprocess.run([TIDY, "-p", self.build, "--quiet", self.checks, "--extra-arg=-Wno-unknown-warning-option", file],
                              capture_output=True, text=True)
        is_clean = done.returncode == 0 and "warning:" not in done.stdout
        if mark and is_clean:
            open(mark, "w").close()
        return True, is_clean, done.stdout if is_clean or done.stdout else done.stderr


def main():
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        sys.exit(__doc__)
    files = sys.argv[2:] or [f for f in sys.stdin.read().split("\0") if f]
    linter = Linter(os.path.realpath(sys.argv[1]))
    looked_at = failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for was_looked_at, is_clean, text in pool.map(linter.lint, files):
            looked_at += was_looked_at
            failed += not is_clean
            if text:
                print(text, flush=True)
    print(f"{len(files)} files, {looked_at} of them changed since they were clean, {failed} with findings")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
