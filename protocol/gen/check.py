"""What fails the build: functions without a row or in two, unknown parameters, hand-written bodies without a reason, opcodes that changed."""
from model import SpecError
from wire_layout import direction


def check(entries, functions):
    seen = {}
    names = {e.name for e in entries}
    for e in entries:
        where = f"{e.row}.api:{e.line}"
        if e.name in seen:
            raise SpecError(f"{where}: {e.name} is already in {seen[e.name]}")
        seen[e.name] = where
        if e.is_record:
            continue
        if e.name not in functions:
            raise SpecError(f"{where}: cuda.h has no function {e.name} (after macro expansion)")
        for carrier in e.carried_by:
            if carrier not in names:
                raise SpecError(f"{where}: {e.name} is carried_by {carrier}, which is no record")
        if (e.body in ("shim", "both") or e.travel == "unsupported") and not e.reason:
            raise SpecError(f"{where}: {e.name} has a hand-written body or is unsupported: say why in a comment")
        if e.body == "generated" and e.travel in ("local", "memo"):
            raise SpecError(f"{where}: {e.name} is {e.travel}, which needs `body shim`")
        if e.travel in ("posted", "called") and not e.carried_by:
            for p in functions[e.name].params:
                if direction(e, p)[0] == "?":
                    raise SpecError(f"{where}: {e.name}: `{p.type.text} {p.name}` needs a direction")
    missing = sorted(set(functions) - set(seen))
    if missing:
        raise SpecError(f"functions of cuda.h in no row: {', '.join(missing[:8])}{' …' if len(missing) > 8 else ''} "
                        "(protocol/gen/main.py --draft writes first entries)")


def read_lock(path):
    opcodes = {}
    for number, line in enumerate(open(path, encoding="utf-8"), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        opcode, name = line.split()
        if name in opcodes or int(opcode) in opcodes.values():
            raise SpecError(f"opcodes.lock:{number}: {name} or {opcode} occurs twice")
        opcodes[name] = int(opcode)
    return opcodes


def lock_opcodes(path, travelling):
    """Numbers for every travelling name; new ones are appended to the lock file, old ones never change."""
    opcodes = read_lock(path)
    missing = [name for name in travelling if name not in opcodes]
    if missing:
        following = max(opcodes.values(), default=0) + 1
        with open(path, "a", encoding="utf-8") as out:
            for i, name in enumerate(missing):
                opcodes[name] = following + i
                out.write(f"{following + i} {name}\n")
    return opcodes
