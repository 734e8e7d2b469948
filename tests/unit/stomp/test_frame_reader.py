"""Frames out of bytes: line ends, escapes of each version, bodies with and without a length, limits."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from leveret.stomp.errors import StompError
from leveret.stomp.frame import Frame, encode
from leveret.stomp.frame_reader import BEFORE_LOGIN, FrameLimits, StompReader, after_login


def read(data: bytes, version: str = "1.2", limits: FrameLimits | None = None, step: int = 0) -> list[Frame]:
    reader = StompReader(limits or after_login(1_000))
    reader.version = version
    frames: list[Frame] = []
    for start in range(0, len(data), step or len(data)):
        reader.feed(data[start : start + (step or len(data))])
        frames += iter(reader.next_frame, None)
    return frames


@pytest.mark.parametrize("step", [0, 1, 3])
def test_frames_come_whole_in_any_slicing(step: int) -> None:
    data = b"\n\0\r\nSEND\ndestination:/queue/a\ncontent-length:3\n\na\0b\0\0\nSEND\r\nx:1\r\n\r\nbody\0\n\0\n"
    first, second = read(data, step=step)
    assert (first.headers["destination"], first.body) == ("/queue/a", b"a\0b")
    assert (second.headers, second.body) == ({"x": "1"}, b"body")


@pytest.mark.parametrize(
    ("version", "written", "meant"),
    [
        ("1.2", rb"a\cb\n\r\\:c", ("a:b\n\r\\", "c")),
        ("1.1", rb"a\cb\n\\:c", ("a:b\n\\", "c")),
        ("1.0", rb"a\cb\n\\:c:d", ("a\\cb\\n\\\\", "c:d")),
    ],
)
def test_headers_are_unescaped_as_their_version_says(version: str, written: bytes, meant: tuple[str, str]) -> None:
    (frame,) = read(b"SEND\n" + written + b"\n\n\0", version)
    assert list(frame.headers.items()) == [meant]


@pytest.mark.parametrize(("version", "value"), [("1.2", rb"\t"), ("1.1", rb"\t"), ("1.2", b"\\")])
def test_an_unknown_escape_is_refused(version: str, value: bytes) -> None:
    with pytest.raises(StompError, match="escape sequence"):
        read(b"SEND\na:" + value + b"\n\n\0", version)


def test_a_carriage_return_may_be_escaped_in_1_1_too() -> None:
    (frame,) = read(b"SEND\na:b\\rc\n\n\0", "1.1")
    assert frame.headers == {"a": "b\rc"}


@pytest.mark.parametrize(("version", "value"), [("1.0", "b "), ("1.1", "  b "), ("1.2", "  b ")])
def test_blanks_before_a_value_are_the_style_of_1_0(version: str, value: str) -> None:
    (frame,) = read(b"SEND\na:  b \n\n\0", version)
    assert frame.headers == {"a": value}


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_what_is_written_is_read_again(version: str) -> None:
    headers = [("a", "b\\c"), ("d", "e:f" if version != "1.0" else "e")]
    if version == "1.2":
        headers.append(("g", "h\r\n"))
    (frame,) = read(encode(version, "SEND", headers, b"x\0y").replace(b"\n\n", b"\ncontent-length:3\n\n", 1), version)
    assert [frame.headers[name] for name, _ in headers] == [value for _, value in headers]
    assert frame.body == b"x\0y"


def test_connected_is_never_escaped() -> None:
    assert encode("1.2", "CONNECTED", [("server", "a:b\nc")]) == b"CONNECTED\nserver:a:b c\n\n\0"


def test_of_repeated_headers_the_first_counts() -> None:
    assert read(b"SEND\na:1\na:2\n\n\0")[0].headers == {"a": "1"}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"NONSENSE\n\n\0", "Bad command"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20), "Malformed frame"),
        (b"GET /a/very/long/path HTTP/1.1", "Bad command"),
        (b"SEND\nnocolon\n\n\0", "Malformed frame"),
        (b"SEND\n:value\n\n\0", "Malformed frame"),
        (b"SEND\na:\xff\n\n\0", "Malformed frame"),
        (b"SEND\na:b\0\n\n", "Malformed frame"),
        (b"SEND\ncontent-length:1\n\nab\n\n", "Malformed frame"),
        (b"SEND\ncontent-length:-1\n\n\0", "Invalid header"),
        (b"SEND\ncontent-length:1001\n\n", "Frame too large"),
        (b"SEND\n\n" + b"x" * 1_001, "Frame too large"),
        (b"SEND\n" + b"a:b\n" * 1_001 + b"\n\0", "Frame too large"),
        (b"SEND\na:" + b"x" * 70_000, "Frame too large"),
        (b"ACK\ncontent-length:4097\n\n", "Frame too large"),
    ],
)
def test_malformed_and_too_large_frames_are_refused(data: bytes, message: str) -> None:
    with pytest.raises(StompError) as refused:
        read(data)
    assert refused.value.message == message


def test_before_the_login_little_is_taken() -> None:
    for data in (b"CONNECT\n" + b"a:b\n" * 65 + b"\n\0", b"CONNECT\na:" + b"x" * (16 << 10), b"SEND\n\nx\0"):
        with pytest.raises(StompError, match="too large"):
            read(data, limits=BEFORE_LOGIN)


def test_line_ends_are_skipped_together_and_not_one_by_one() -> None:
    """Anybody may send them before a login, as many as the wire carries."""
    lines = 0

    def count(frame: FrameType, event: str, argument: object) -> object:
        nonlocal lines
        lines += event == "line"
        return count

    reader, before = StompReader(), sys.gettrace()
    reader.feed(b"\r\n" * 5_000)
    sys.settrace(count)
    try:
        frames = list(iter(reader.next_frame, None))
    finally:
        sys.settrace(before)
    assert (frames, reader.size) == ([], 0)
    assert lines < 100
