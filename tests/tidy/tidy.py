#!/usr/bin/python3
"""Style rules that are a test: file length, include directions, TODO form, output, links, environment variables, formatting.

usage: tidy.py ROOT [--no-format]
Prints one line per violation; exit status 1 if there is any.
"""
import os
import re
import shutil
import subprocess
import sys

LINES_MAX = 800
# Longer files need a reason here.
LINES_EXCEPTIONS = {}

SOURCE = (".cpp", ".h", ".cu")
CODE_FOLDERS = ("common", "protocol", "transport", "softgpu", "shim", "server", "scheduler", "tools", "bench")

# folder -> folders it may include (besides itself, generated headers and the system)
MAY_INCLUDE = {
    "common": set(),
    "protocol": {"common"},
    "transport": {"common"},
    "softgpu": {"common"},
    "shim": {"common", "protocol", "transport"},
    "scheduler": {"common"},
    "server": {"common", "protocol", "transport", "scheduler"},
    "tools": {"common", "protocol", "transport", "server", "scheduler"},
    "bench": {"common", "protocol", "transport", "tools"},
}
TODO = re.compile(r"\bTODO\b(?!\((soon|someday|perf|security|cleanup|test)\): )")
ENVIRONMENT = re.compile(r'(?:getenv|environment|environ\.get)\(\s*"([A-Z][A-Z0-9_]+)"')
# Set by the system or the test harness, not a setting of ours.
FOREIGN_ENVIRONMENT = {"HOME", "PATH", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "XDG_CONFIG_HOME"}
LINK = re.compile(r"\[[^\]]*\]\(([^)\s#]+)(?:#[^)]*)?\)")


def tracked(root):
    out = subprocess.run(["git", "-C", root, "ls-files"], capture_output=True, text=True, check=True).stdout
    return [name for name in out.splitlines() if os.path.isfile(os.path.join(root, name))]


def check_source(name, text, complain):
    lines = text.split("\n")
    if len(lines) > LINES_EXCEPTIONS.get(name, LINES_MAX):
        complain(name, 0, f"{len(lines)} lines (limit {LINES_MAX})")
    folder = name.split("/")[0]
    for number, line in enumerate(lines, 1):
        if line != line.rstrip():
            complain(name, number, "trailing space")
        if TODO.search(line):
            complain(name, number, "TODO must be TODO(soon|someday|perf|security|cleanup|test): text")
        if folder in CODE_FOLDERS and folder != "tools" and folder != "bench" and "std::cout" in line:
            complain(name, number, "std::cout in a library or daemon")
        include = re.match(r'\s*#include "([a-z_]+)/', line)
        if include and folder in MAY_INCLUDE:
            target = include.group(1)
            if target in MAY_INCLUDE and target != folder and target not in MAY_INCLUDE[folder]:
                complain(name, number, f"{folder} must not include {target}")


def check_environment(root, names, complain):
    documented = open(os.path.join(root, "docs/configuration.md"), encoding="utf-8").read()
    for name in names:
        if not name.endswith(SOURCE) or name.split("/")[0] not in CODE_FOLDERS:
            continue
        for number, line in enumerate(open(os.path.join(root, name), encoding="utf-8"), 1):
            for variable in ENVIRONMENT.findall(line):
                if variable not in FOREIGN_ENVIRONMENT and variable not in documented:
                    complain(name, number, f"{variable} is read here but not in docs/configuration.md")


def check_links(root, name, text, complain):
    for number, line in enumerate(text.split("\n"), 1):
        for target in LINK.findall(line):
            if "://" in target or target.startswith("mailto:"):
                continue
            if not os.path.exists(os.path.join(root, os.path.dirname(name), target)):
                complain(name, number, f"link to {target}, which does not exist")


def check_format(root, names, complain):
    tool = shutil.which("clang-format-14") or shutil.which("clang-format")
    if tool is None:
        print("tidy: clang-format is not installed; formatting was not checked", file=sys.stderr)
        return
    files = [name for name in names if name.endswith((".cpp", ".h")) and name.split("/")[0] in CODE_FOLDERS + ("tests",)
             and not name.startswith(("tests/cases/",))]
    for start in range(0, len(files), 50):
        run = subprocess.run([tool, "--dry-run", "--ferror-limit=1", *files[start:start + 50]], cwd=root,
                             capture_output=True, text=True, check=False)
        for line in run.stderr.splitlines():
            match = re.match(r"(.*?):(\d+):\d+: (?:warning|error): code should be clang-formatted", line)
            if match:
                complain(match.group(1), int(match.group(2)), "not clang-formatted")


def main():
    root = os.path.realpath(sys.argv[1])
    violations = []

    def complain(name, line, message):
        violations.append(f"{name}:{line}: {message}" if line else f"{name}: {message}")

    names = tracked(root)
    for name in names:
        if name.endswith(SOURCE + (".py", ".md", ".sh")) or name == "tools/dev":
            text = open(os.path.join(root, name), encoding="utf-8").read()
            if name.endswith(SOURCE) and not name.startswith("tests/cases/"):
                check_source(name, text, complain)
            if name.endswith(".md"):
                check_links(root, name, text, complain)
    check_environment(root, names, complain)
    if "--no-format" not in sys.argv:
        check_format(root, names, complain)
    for violation in violations:
        print(violation)
    print(f"tidy: {len(names)} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
