"""Which fields of a JSON body are masked, and how: paths, and the masked body.

A path is names joined by dots, with ``[*]`` for every element of an array: ``customer.email``, ``lines[*].card``. A
name with other characters is quoted in brackets: ``customer["e-mail.home"]``. A field that is absent, or in an object
that is null, needs no masking. A value of another kind than the path asks for (a string where it goes through an
object) is refused: the personal data may be in it.

Only the text of masked values changes. All other characters of the body stay as they are, numbers included, and a body
without any of the fields is returned as the same bytes.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from leveret.errors import ConfigError
from leveret.spark.jobs.json_spans import Member, NotJson, Value, parsed, unquoted

Step = str | None  # the name of a field, or None for every element of an array
ELEMENTS: Step = None
STEP = re.compile(r"""(?P<elements>\[\*\])|\["(?P<quoted>(?:[^"\\]|\\["\\])+)"\]|\.(?P<name>[^.\[\]"*\s]+)""")
REDACTED = '"***"'
PLAIN = ("string", "number", "boolean")
BYTE_ORDER_MARK = "\ufeff"


class NotMasked(ValueError):
    """The body cannot be masked; the text says why, without any of its content."""


class Edit(NamedTuple):
    """The text from ``start`` to ``end`` is replaced."""

    start: int
    end: int
    text: str


@dataclass(slots=True)
class Node:
    """What is done at one place of a body: an action, or something further inside."""

    action: str | None = None
    inside: dict[Step, Node] = field(default_factory=dict)


class Mask:
    """Masks bodies. It is sent to executors; its representation does not show the key."""

    def __init__(self, rules: Iterable[tuple[str, str]], key: bytes) -> None:
        """``rules``: pairs of an action and a path."""
        self._root = _tree(rules)
        self._key = key

    def __repr__(self) -> str:
        return "Mask(***)"

    def masked(self, body: bytes) -> bytes:
        """The body with its fields masked. Raises NotMasked if that is impossible."""
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotMasked(f"the body is not UTF-8, at byte {error.start}") from None
        if text.startswith(BYTE_ORDER_MARK):
            raise NotMasked("the body begins with a byte order mark")
        try:
            value = parsed(text)
        except NotJson as error:
            raise NotMasked(f"the body is not JSON: {error}") from None
        return _edited(text, self._edits(text, value, self._root, "the body"))

    def _edits(self, text: str, value: Value, node: Node, place: str) -> Iterator[Edit]:
        """The edits in this value, in order."""
        if value.kind == "null" or not node.inside:
            return
        if ELEMENTS in node.inside:
            yield from self._in_array(text, value, node.inside[ELEMENTS], place)
        else:
            yield from self._in_object(text, value, node.inside, place)

    def _in_array(self, text: str, value: Value, node: Node, place: str) -> Iterator[Edit]:
        _require(value, "array", place)
        if node.action == "remove":
            yield Edit(value.start, value.end, "[]")
            return
        for item in value.elements:
            yield from self._at(text, item, node, f"an element of {place}")

    def _in_object(self, text: str, value: Value, inside: Mapping[Step, Node], place: str) -> Iterator[Edit]:
        _require(value, "object", place)
        gone = {name for name, node in inside.items() if node.action == "remove"}
        members = list(value.members.items())
        first = next((number for number, (name, _) in enumerate(members) if name not in gone), None)
        if first is None:
            yield from [Edit(value.start, value.end, "{}")] if members else []
            return
        for number, (name, member) in enumerate(members):
            if name in gone:
                yield self._without(members, number, first)
            elif (node := inside.get(name)) is not None:
                yield from self._at(text, member.value, node, _shown(name))

    @staticmethod
    def _without(members: Sequence[tuple[str, Member]], number: int, first: int) -> Edit:
        """Removes one member, with the comma before it; before the first one that stays, with the comma after it."""
        member = members[number][1]
        if number < first:
            return Edit(member.start, members[number + 1][1].start, "")
        return Edit(members[number - 1][1].value.end, member.value.end, "")

    def _at(self, text: str, value: Value, node: Node, place: str) -> Iterator[Edit]:
        if node.action is None:
            yield from self._edits(text, value, node, place)
        elif node.action == "redact":
            yield Edit(value.start, value.end, REDACTED)
        elif value.kind != "null":
            yield Edit(value.start, value.end, f'"{self._digest(text[value.start : value.end], value.kind, place)}"')

    def _digest(self, literal: str, kind: str, place: str) -> str:
        if kind not in PLAIN:
            raise NotMasked(f"{place} is an {kind}: only a string, a number or a boolean can be hashed")
        plain = unquoted(literal) if kind == "string" else literal
        # A lone surrogate is legal in JSON and has no UTF-8.
        return hmac.new(self._key, plain.encode("utf-8", "surrogatepass"), sha256).hexdigest()


def steps_of(path: str) -> tuple[Step, ...]:
    """The steps of a path; ``$`` before the first one is allowed."""
    steps: list[Step] = []
    at = 1 if path.startswith(("$.", "$[")) else 0
    if path[at : at + 1] not in (".", "["):
        path, at = f".{path[at:]}", 0
    while at < len(path):
        found = STEP.match(path, at)
        if found is None or path == ".$":
            raise ConfigError(
                f"the path {path.removeprefix('.')!r} cannot be read: join names by dots, write [*] for the elements "
                'of an array and ["any name"] for other names, as customer.email or lines[*].card'
            )
        steps.append(ELEMENTS if found["elements"] else _name_of(found))
        at = found.end()
    return tuple(steps)


def _name_of(found: re.Match[str]) -> str:
    return found["name"] if found["quoted"] is None else unquoted(f'"{found["quoted"]}"')


def _tree(rules: Iterable[tuple[str, str]]) -> Node:
    root = Node()
    for action, path in rules:
        node = root
        for step in steps_of(path):
            node = node.inside.setdefault(step, Node())
        if node.action is not None:
            raise ConfigError(f"the path {path} is given twice: once with --{node.action}, once with --{action}")
        node.action = action
    _check(root, "")
    return root


def _check(node: Node, path: str) -> None:
    """Refuse paths of which one is inside another, and a place that would be both an array and an object."""
    names = ["[*]" if step is ELEMENTS else f".{_shown(step)}" for step in node.inside]
    if node.action is not None and names:
        raise ConfigError(f"--{node.action} {path} covers all of {path}{names[0]}: leave one of them out")
    if ELEMENTS in node.inside and len(names) > 1:
        raise ConfigError(f"{path or 'the body'} cannot be both an array ({path}[*]) and an object")
    for name, inner in zip(names, node.inside.values(), strict=True):
        _check(inner, f"{path}{name}" if path else name.removeprefix("."))


def _shown(name: Step) -> str:
    return str(name) if str(name).isprintable() else repr(name)


def _require(value: Value, kind: str, place: str) -> None:
    if value.kind != kind:
        raise NotMasked(f"{place} is not an {kind}: it is of type {value.kind}")


def _edited(text: str, edits: Iterable[Edit]) -> bytes:
    """The text with these edits, which are in order and do not overlap."""
    parts, at = [], 0
    for edit in edits:
        parts += [text[at : edit.start], edit.text]
        at = edit.end
    return "".join([*parts, text[at:]]).encode("utf-8")
