"""Write src/leveret/wire/methods.py from tools/spec.toml.

python tools/generate_methods.py            write the file
python tools/generate_methods.py --check    write nothing; exit 1 if the file is not what would be written
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parent
SPEC = TOOLS / "spec.toml"
TARGET = TOOLS.parent / "src" / "leveret" / "wire" / "methods.py"
RESERVED = "reserved"

HEAD = '''\
# Generated from tools/spec.toml by `python tools/generate_methods.py`. Do not edit.
"""Every method of AMQP 0-9-1 as RabbitMQ speaks it: one class each, with its arguments as attributes."""

from __future__ import annotations

from typing import ClassVar, Self

from leveret.wire.fields import (
    Table,
    decode_long,
    decode_octet,
    decode_short,
    decode_table,
    decode_uint16,
    decode_uint32,
    decode_uint64,
    encode_bits,
    encode_long,
    encode_octet,
    encode_short,
    encode_table,
    encode_uint16,
    encode_uint32,
    encode_uint64,
    expect_end,
)


class Method:
    """What all methods have in common. Mutable, since interceptors rewrite them. Written out, not made by dataclasses:
    that would be a tenth of the work of a start."""

    __slots__: tuple[str, ...] = ()
    __hash__ = None  # type: ignore[assignment]

    CLASS_ID: ClassVar[int]
    METHOD_ID: ClassVar[int]
    id: ClassVar[tuple[int, int]]
    NAME: ClassVar[str]
    SYNC: ClassVar[bool]
    HAS_CONTENT: ClassVar[bool]

    def encode(self) -> bytes:
        """The payload of the method frame: class id, method id, arguments."""
        raise NotImplementedError

    @classmethod
    def decode(cls, data: bytes, offset: int, end: int) -> Self:
        """The method whose arguments fill (offset, end) exactly; ``offset`` is after the two ids."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
'''

TYPES = {
    "bit": ("bool", "False"),
    "octet": ("int", "0"),
    "uint16": ("int", "0"),
    "uint32": ("int", "0"),
    "uint64": ("int", "0"),
    "short": ("str", '""'),
    "long": ("bytes", 'b""'),
    "table": ("Table", "None"),
}
ZEROS = {"uint16": "\\x00\\x00", "short": "\\x00", "bit": "\\x00", "long": "\\x00\\x00\\x00\\x00"}


@dataclass(frozen=True, slots=True)
class Argument:
    name: str
    kind: str
    default: str

    @classmethod
    def parse(cls, text: str) -> Argument:
        head, _, given = text.partition("=")
        name, kind = head.split(":")
        default = TYPES[kind][1]
        if given:
            quoted = {"short": f'"{given}"', "long": f'b"{given}"', "bit": given.capitalize()}
            default = quoted.get(kind, given)
        return cls(name, kind, default)

    @property
    def is_reserved(self) -> bool:
        return self.name == RESERVED


@dataclass(frozen=True, slots=True)
class Shape:
    """One method of the specification."""

    class_name: str
    class_id: int
    name: str
    facts: dict[str, Any]
    arguments: tuple[Argument, ...]

    @property
    def python_name(self) -> str:
        return "".join(word.capitalize() for word in f"{self.class_name}-{self.name}".split("-"))

    def runs(self) -> Iterator[list[Argument]]:
        """Arguments as they lie on the wire: neighbouring bits together, everything else alone."""
        for is_bit, group in groupby(self.arguments, key=lambda argument: argument.kind == "bit"):
            arguments = list(group)
            if is_bit:
                yield arguments
            else:
                yield from ([argument] for argument in arguments)


def shapes(spec: dict[str, Any]) -> Iterator[Shape]:
    for class_name, body in spec.items():
        for name, facts in body.items():
            if name != "id":
                arguments = tuple(map(Argument.parse, facts.get("fields", ())))
                yield Shape(class_name, body["id"], name, facts, arguments)


def write_class(shape: Shape) -> Iterator[str]:
    visible = [argument for argument in shape.arguments if not argument.is_reserved]
    yield f"class {shape.python_name}(Method):"
    yield from write_names(visible)
    yield ""
    yield f"    CLASS_ID: ClassVar[int] = {shape.class_id}"
    yield f"    METHOD_ID: ClassVar[int] = {shape.facts['id']}"
    yield f"    id: ClassVar[tuple[int, int]] = ({shape.class_id}, {shape.facts['id']})"
    yield f'    NAME: ClassVar[str] = "{shape.class_name}.{shape.name}"'
    yield f"    SYNC: ClassVar[bool] = {shape.facts.get('sync', False)}"
    yield f"    HAS_CONTENT: ClassVar[bool] = {shape.facts.get('content', False)}"
    if visible:
        yield ""
        yield from write_init(visible)
    yield ""
    yield from write_encode(shape)
    yield ""
    yield from write_decode(shape)


def write_names(visible: list[Argument]) -> Iterator[str]:
    names = [f'"{argument.name}"' for argument in visible]
    line = f"    __slots__ = ({', '.join(names)}{',' if len(names) == 1 else ''})"
    if len(line) <= 120:
        yield line
        return
    yield "    __slots__ = ("
    for name in names:
        yield f"        {name},"
    yield "    )"


def write_init(visible: list[Argument]) -> Iterator[str]:
    """A table that is not given is a new one each time."""
    yield "    def __init__("
    yield "        self,"
    for argument in visible:
        kind = f"{TYPES[argument.kind][0]} | None" if argument.kind == "table" else TYPES[argument.kind][0]
        yield f"        {argument.name}: {kind} = {argument.default},"
    yield "    ) -> None:"
    for argument in visible:
        value = f"{{}} if {argument.name} is None else {argument.name}" if argument.kind == "table" else argument.name
        yield f"        self.{argument.name} = {value}"


def write_encode(shape: Shape) -> Iterator[str]:
    ids = shape.class_id.to_bytes(2, "big") + shape.facts["id"].to_bytes(2, "big")
    constant = "".join(f"\\x{byte:02x}" for byte in ids)
    parts: list[str] = []
    for run in shape.runs():
        if run[0].is_reserved:
            assert all(argument.is_reserved for argument in run), "no bit is reserved among others"
            if parts:
                parts.append(f'b"{ZEROS[run[0].kind]}"')
            else:
                constant += ZEROS[run[0].kind]
        elif run[0].kind == "bit":
            parts.append(f"encode_bits({', '.join(f'self.{argument.name}' for argument in run)})")
        else:
            parts.append(f"encode_{run[0].kind}(self.{run[0].name})")
    yield "    def encode(self) -> bytes:"
    if not parts:
        yield f'        return b"{constant}"'
        return
    yield "        parts = ["
    yield f'            b"{constant}",'
    for part in parts:
        yield f"            {part},"
    yield "        ]"
    yield '        return b"".join(parts)'


def write_decode(shape: Shape) -> Iterator[str]:
    yield "    @classmethod"
    yield "    def decode(cls, data: bytes, offset: int, end: int) -> Self:"
    values: list[str] = []
    for run in shape.runs():
        kind = run[0].kind
        target = "_" if run[0].is_reserved else run[0].name
        if kind == "bit":
            target = "_" if run[0].is_reserved else "bits"
            kind = "octet"
        yield f"        {target}, offset = decode_{kind}(data, offset, end)"
        if target == "bits":
            values += [f"bits & {1 << place} != 0" for place in range(len(run))]
        elif target != "_":
            values.append(target)
    yield "        expect_end(offset, end)"
    yield from write_return(values)


def write_return(values: list[str]) -> Iterator[str]:
    line = f"        return cls({', '.join(values)})"
    if len(line) <= 120:
        yield line
        return
    yield "        return cls("
    for value in values:
        yield f"            {value},"
    yield "        )"


def render() -> str:
    every = list(shapes(tomllib.loads(SPEC.read_text())))
    lines = [HEAD]
    for shape in every:
        lines += ["", *write_class(shape), ""]
    lines += ["", "METHODS: dict[tuple[int, int], type[Method]] = {"]
    lines += [f"    ({shape.class_id}, {shape.facts['id']}): {shape.python_name}," for shape in every]
    lines += ["}", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    text = render()
    if arguments == ["--check"]:
        if not TARGET.exists() or TARGET.read_text() != text:
            print(f"{TARGET} is not up to date: run python tools/generate_methods.py", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
