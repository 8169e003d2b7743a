"""What the stages of the generator pass to each other."""
from dataclasses import dataclass, field


@dataclass
class CType:
    """A parameter's type as cuda.h has it, classified for the wire."""
    text: str            # C++ spelling, e.g. "const CUlaunchConfig *"
    base: str            # the pointee's (or the value's) type name, e.g. "CUlaunchConfig"
    depth: int           # levels of pointers around base
    is_const: bool       # the pointee is const
    kind: str            # of base: scalar | handle | struct | opaque (pointers inside, callbacks, void, char)
    width: int = 0       # bytes of a scalar base


@dataclass
class Param:
    name: str
    type: CType


@dataclass
class Function:
    name: str
    params: list


@dataclass
class Field:
    """One field of a record or a parameter line of a function entry."""
    name: str
    words: list          # e.g. ["u64"], ["stream", "create"], ["out", "nullable"]


@dataclass
class Also:
    """An older exported name that the function answers too; `without` is a last parameter it does not have (null then)."""
    name: str
    without: str = ""


@dataclass
class Entry:
    """A `fn` or `record` entry of an .api file."""
    name: str
    row: str
    is_record: bool
    line: int
    travel: str = "called"          # class: local | memo | posted | called | pushed | unsupported
    needs: str = "context"
    body: str = "generated"         # generated | shim | worker | both: which sides are written by hand
    carried_by: list = field(default_factory=list)
    fields: list = field(default_factory=list)
    reply_fields: list = field(default_factory=list)
    reason: str = ""
    also: list = field(default_factory=list)
    work: str = ""                  # the function computes on the device: its size in bytes, a C expression over the parameters
    checks: list = field(default_factory=list)    # C expressions; false = CUDA_ERROR_INVALID_VALUE at the call

    @property
    def where(self):
        return f"{self.row}.api:{self.line}"

    @property
    def has_own_shim(self):
        return self.body in ("shim", "both")

    @property
    def has_own_worker(self):
        return self.body in ("worker", "both")


@dataclass
class Way:
    """How one parameter travels."""
    what: str                # in | out | inout | create | destroy | string | server | ignored | ?
    is_nullable: bool = False
    unit: str = ""           # bytes | array: a variable part of `extent` bytes or elements
    extent: str = ""         # a C expression over the other parameters
    constant: str = ""       # of `server`: what the worker passes


@dataclass
class WireField:
    name: str
    cxx: str             # C++ type of the member
    width: int           # bytes of one element
    count: int = 1       # array length
    handle: str = ""     # CUDA handle type, "" = none
    size_of: str = ""    # C++ type whose bytes this opaque field carries


@dataclass
class WireStruct:
    """A request (and its reply) ready to be printed."""
    entry: Entry
    request: list
    blobs: list          # names of variable parts of the request
    reply: list
    reply_blobs: list


class SpecError(Exception):
    """A mistake in a .api file or a disagreement with cuda.h; the message names file, line and fix."""
