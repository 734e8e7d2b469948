from __future__ import annotations

import socket
import struct

import pytest

from leveret.server.proxy_header import LONGEST_REST, SIGNATURE, BadHeader, client_of, missing


def binary(command: int = 0x21, family: int = 0x11, rest: bytes = b"") -> bytes:
    return SIGNATURE + struct.pack(">BBH", command, family, len(rest)) + rest


def addresses(family: int, source: str, destination: str, port: int) -> bytes:
    packed = socket.inet_pton(family, source) + socket.inet_pton(family, destination)
    return packed + struct.pack(">HH", port, 5672)


IPV4 = addresses(socket.AF_INET, "203.0.113.9", "192.0.2.1", 56324)
IPV6 = addresses(socket.AF_INET6, "2001:db8::9", "2001:db8::1", 56324)
MAPPED = addresses(socket.AF_INET6, "::ffff:203.0.113.9", "::1", 56324)
TLV = b"\x04\x00\x03abc"

GOOD = {
    b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 5672\r\n": ("203.0.113.9", 56324),
    b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n": ("255.255.255.255", 65535),
    b"PROXY TCP4 1.1.1.1 1.1.1.1 0 0\r\n": ("1.1.1.1", 0),
    b"PROXY TCP6 2001:db8::9 2001:db8::1 56324 5672\r\n": ("2001:db8::9", 56324),
    b"PROXY TCP6 ::ffff:203.0.113.9 ::1 56324 5672\r\n": ("203.0.113.9", 56324),
    b"PROXY UNKNOWN\r\n": None,
    b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n": None,
    binary(rest=IPV4): ("203.0.113.9", 56324),
    binary(rest=IPV4 + TLV): ("203.0.113.9", 56324),
    binary(family=0x21, rest=IPV6): ("2001:db8::9", 56324),
    binary(family=0x21, rest=MAPPED + TLV): ("203.0.113.9", 56324),
    binary(command=0x20, family=0x00): None,
    binary(command=0x20, rest=IPV4): None,
    binary(family=0x00): None,
    binary(family=0x00, rest=TLV): None,
    binary(rest=IPV4 + b"x" * (LONGEST_REST - len(IPV4))): ("203.0.113.9", 56324),
}
BAD = [
    b"AMQP\0\0\x09\x01",
    b"GET / HTTP/1.1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\0\0\0\0\0",  # a TLS handshake
    b"\r\n\r\n\0\r\nQUIX\nxxxx",
    b"proxy TCP4 203.0.113.9 192.0.2.1 56324 5672\r\n",
    b"PROXY\tTCP4 203.0.113.9 192.0.2.1 56324 5672\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 5672\n AMQP\r\n",
    b"PROXY TCP4\r\nmore bytes\r\n",
    b"PROXY TCP4 203.0.113.9  192.0.2.1 56324 5672\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 56324\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 5672 1\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 56324 65536\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 99999 5672\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 -1 5672\r\n",
    b"PROXY TCP4 203.0.113.9 192.0.2.1 056324 5672\r\n",
    b"PROXY TCP4 203.0.113.256 192.0.2.1 56324 5672\r\n",
    b"PROXY TCP4 203.0.113.9 nowhere 56324 5672\r\n",
    b"PROXY TCP4 0203.0.113.9 192.0.2.1 56324 5672\r\n",
    b"PROXY TCP4 2001:db8::9 2001:db8::1 56324 5672\r\n",
    b"PROXY TCP6 203.0.113.9 192.0.2.1 56324 5672\r\n",
    b"PROXY TCP6 fe80::1%eth0 ::1 56324 5672\r\n",
    b"PROXY UDP4 203.0.113.9 192.0.2.1 56324 5672\r\n",
    b"PROXY TCP4 \xff 192.0.2.1 56324 5672\r\n",
    b"PROXY UNKNOWN " + b"x" * 93,
    binary(command=0x11, rest=IPV4),
    binary(command=0x22, rest=IPV4),
    binary(rest=IPV4[:-1]),
    binary(family=0x21, rest=IPV4),
    binary(family=0x12, rest=IPV4),  # UDP
    binary(family=0x31, rest=bytes(216)),  # a Unix socket
    binary(rest=IPV4 + b"x" * LONGEST_REST),
]


def read(sent: bytes) -> tuple[bytes, bytes]:
    """The header that is read off ``sent``, and what is left of it."""
    head = b""
    while (size := missing(head)) > 0:
        assert sent, f"{size} bytes are missing after {head!r}"
        head, sent = head + sent[:size], sent[size:]
    return head, sent


@pytest.mark.parametrize("header", GOOD, ids=repr)
def test_a_header_gives_the_client_and_leaves_what_follows(header: bytes) -> None:
    for following in (b"", b"AMQP\0\0\x09\x01", header):
        head, rest = read(header + following)
        assert (head, rest) == (header, following)
        assert client_of(head) == GOOD[header]


@pytest.mark.parametrize("header", GOOD, ids=repr)
def test_every_beginning_of_a_header_asks_for_more(header: bytes) -> None:
    for size in range(len(header)):
        assert 0 < missing(header[:size]) <= len(header) - size


@pytest.mark.parametrize("header", BAD, ids=repr)
def test_anything_else_is_refused(header: bytes) -> None:
    with pytest.raises(BadHeader):
        client_of(read(header)[0])


def test_the_longest_line_is_107_bytes() -> None:
    assert read(b"PROXY UNKNOWN " + b"x" * 91 + b"\r\n")[1] == b""
    with pytest.raises(BadHeader):
        read(b"PROXY UNKNOWN " + b"x" * 92 + b"\r\n")


def test_garbage_is_refused_by_its_first_byte() -> None:
    with pytest.raises(BadHeader, match="no PROXY header"):
        missing(b"A")
