"""What fails the build: functions without a row or in two, unknown parameters, arguments that cannot be carried as specified,
hand-written bodies without a reason, opcodes without a number."""
from model import SpecError
from spec import read_lines
from wire_layout import travels, way_of, why_not_carried


def check(entries, functions):
    seen = {}
    names = {e.name for e in entries}
    for e in entries:
        if e.name in seen:
            raise SpecError(f"{e.where}: {e.name} is already in {seen[e.name]}")
        seen[e.name] = e.where
        if e.is_record:
            _check_record(e)
        elif e.name not in functions:
            raise SpecError(f"{e.where}: cuda.h has no function {e.name} (after macro expansion)")
        else:
            _check_function(e, functions, names)
    missing = sorted(set(functions) - set(seen))
    if missing:
        raise SpecError(f"functions of cuda.h in no row: {', '.join(missing[:8])}{' …' if len(missing) > 8 else ''} "
                        "(protocol/gen/main.py --draft writes first entries)")


def _check_record(e):
    if e.travel not in ("posted", "called", "pushed"):
        raise SpecError(f"{e.where}: record {e.name} must be posted, called or pushed")
    if e.reply_fields and e.travel != "called":
        raise SpecError(f"{e.where}: record {e.name} has a reply, so it must be called")


def _check_borrowed(e, function, functions):
    """A generated body can send another function's struct if that one has the same parameters and a stream."""
    carrier = functions.get(e.carried_by[0]) if len(e.carried_by) == 1 else None
    mine = [(p.name, p.type.text) for p in function.params]
    if carrier is None or [(p.name, p.type.text) for p in carrier.params] != mine + [("hStream", "CUstream")]:
        raise SpecError(f"{e.where}: {e.name} needs `body shim`: only a function with the same parameters and a stream can carry it")


def _check_function(e, functions, names):
    function = functions[e.name]
    for carrier in e.carried_by:
        if carrier not in names:
            raise SpecError(f"{e.where}: {e.name} is carried_by {carrier}, which is no record")
    if (e.body != "generated" or e.travel == "unsupported") and not e.reason:
        raise SpecError(f"{e.where}: {e.name} has a hand-written body or is unsupported: say why in a comment")
    if e.travel == "pushed":
        raise SpecError(f"{e.where}: {e.name}: only records are pushed")
    if not e.has_own_shim and e.carried_by:
        _check_borrowed(e, function, functions)
    if not e.has_own_shim and e.travel in ("local", "memo"):
        raise SpecError(f"{e.where}: {e.name} needs `body shim`: nothing can be generated for it")
    if e.checks and e.has_own_shim:
        raise SpecError(f"{e.where}: {e.name}: a hand-written body makes its own checks")
    if e.work and (e.has_own_worker or not travels(e) or not any(p.type.base == "CUstream" for p in function.params)):
        raise SpecError(f"{e.where}: {e.name}: `work` is for a generated body in the worker, with a stream")
    known = [p.name for p in function.params]
    for line in e.fields:
        if line.name not in known:
            raise SpecError(f"{e.where}: {e.name} has no parameter {line.name} (it has {', '.join(known) or 'none'})")
    for p in function.params:
        if travels(e):
            reason = why_not_carried(e, p)
            if reason:
                raise SpecError(f"{e.where}: {e.name}: {reason}")
        else:
            way_of(e, p)


def read_lock(path):
    opcodes = {}
    for number, line in enumerate(read_lines(path), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        opcode, name = line.split()
        if name in opcodes or int(opcode) in opcodes.values():
            raise SpecError(f"opcodes.lock:{number}: {name} or {opcode} occurs twice")
        opcodes[name] = int(opcode)
    return opcodes


def without_number(path, travelling):
    known = read_lock(path)
    return [name for name in travelling if name not in known]


def extend_lock(path, travelling):
    """Gives new names the next numbers; returns how many. Numbers never change: peers of other versions know them."""
    opcodes = read_lock(path)
    missing = without_number(path, travelling)
    following = max(opcodes.values(), default=0) + 1
    with open(path, "a", encoding="utf-8") as out:
        for i, name in enumerate(missing):
            out.write(f"{following + i} {name}\n")
    return len(missing)
