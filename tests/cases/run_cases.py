#!/usr/bin/python3
"""Runs the self-checking programs of this folder on one target and compares the outcome with known_failures.txt.

usage: run_cases.py BUILD_DIR OUT_DIR TARGET [CASE ...]
A case that is not listed must pass; a listed case that passes fails the run (the list may only shrink).
known_failures.txt: TARGET-or-* CASE reason…
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LIMIT_S = 90


def known_failures(target):
    known = {}
    for line in open(os.path.join(HERE, "known_failures.txt"), encoding="utf-8"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        where, case, reason = line.split(None, 2)
        if where in ("*", target):
            known[case] = reason
    return known


def run_case(build, out, target, case):
    """Returns (passed, words)."""
    command = [os.path.join(HERE, "..", "run_on.sh"), build, target, os.path.join(out, case)]
    try:
        run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return False, f"timed out after {LIMIT_S} s"
    text = run.stdout.decode("utf-8", "replace").strip()
    last = text.splitlines()[-1] if text else ""
    if run.returncode == 0 and any(line.startswith(f"PASS {case}") for line in text.splitlines()):
        return True, last
    return False, f"exit status {run.returncode}: {text[-600:]}"


def main():
    build, out, target = (os.path.abspath(p) if i < 2 else p for i, p in enumerate(sys.argv[1:4]))
    cases = sys.argv[4:] or sorted(
        name.rsplit(".", 1)[0] for name in os.listdir(HERE) if name.endswith((".cu", ".cpp")))
    known = known_failures(target)
    bad = 0
    for case in cases:
        passed, words = run_case(build, out, target, case)
        if passed and case in known:
            bad += 1
            print(f"LISTED BUT PASSES {case} on {target}: take it out of known_failures.txt")
        elif passed:
            print(f"pass {case} on {target}: {words}")
        elif case in known:
            print(f"known {case} on {target}: {known[case]}")
        else:
            bad += 1
            print(f"FAIL {case} on {target}: {words}")
    print(f"{len(cases) - bad} as expected, {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
