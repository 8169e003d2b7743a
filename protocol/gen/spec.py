"""Reads protocol/cuda/*.api (protocol/README.md describes the language)."""
import os

from model import Also, Entry, Field, SpecError

CLASSES = ("local", "memo", "posted", "called", "pushed", "unsupported")
NEEDS = ("nothing", "init", "context")
BODIES = ("generated", "shim", "worker", "both")


def read_lines(path):
    with open(path, encoding="utf-8", errors="replace") as source:
        return source.read().split("\n")


def read_row(path):
    """[Entry] of one file."""
    row = os.path.splitext(os.path.basename(path))[0]
    entries = []
    entry = None
    in_reply = False
    for number, raw in enumerate(read_lines(path), 1):
        text, _, comment = raw.partition("#")
        words = text.split()
        where = f"{os.path.basename(path)}:{number}"
        if not words:
            if comment and entry is not None and raw.startswith("  "):
                entry.reason = (entry.reason + " " + comment.strip()).strip()
            continue
        if not text.startswith(" "):
            if words[0] == "row":
                if words[1:] != [row]:
                    raise SpecError(f"{where}: the row must be called {row}, like its file")
            elif words[0] in ("fn", "record") and len(words) == 2:
                entry = Entry(words[1], row, words[0] == "record", number)
                in_reply = False
                entries.append(entry)
            else:
                raise SpecError(f"{where}: expected `row NAME`, `fn NAME` or `record NAME`")
            continue
        if entry is None:
            raise SpecError(f"{where}: a line of an entry before any entry")
        in_reply = _entry_line(entry, words, where, in_reply)
        if comment:
            entry.reason = (entry.reason + " " + comment.strip()).strip()
    return entries


def _entry_line(entry, words, where, in_reply):
    key = words[0]
    if key == "class":
        _one_of(where, key, words, CLASSES)
        entry.travel = words[1]
    elif key == "needs":
        _one_of(where, key, words, NEEDS)
        entry.needs = words[1]
    elif key == "body":
        _one_of(where, key, words, BODIES)
        entry.body = words[1]
    elif key == "carried_by":
        entry.carried_by = words[1:]
    elif key == "check":
        entry.checks.append(" ".join(words[1:]))
    elif key == "work":
        entry.work = " ".join(words[1:])
        if not entry.work:
            raise SpecError(f"{where}: expected `work BYTES`")
    elif key == "also":
        if len(words) != 2 and (len(words) != 4 or words[2] != "without"):
            raise SpecError(f"{where}: expected `also NAME` or `also NAME without PARAMETER`")
        entry.also.append(Also(words[1], words[3] if len(words) == 4 else ""))
    elif key == "reply" and entry.is_record:
        return True
    else:
        (entry.reply_fields if in_reply else entry.fields).append(Field(key, words[1:]))
    return in_reply


def _one_of(where, key, words, allowed):
    if len(words) != 2 or words[1] not in allowed:
        raise SpecError(f"{where}: {key} must be one of {', '.join(allowed)}")


def read_all(folder):
    entries = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".api"):
            entries += read_row(os.path.join(folder, name))
    return entries
