"""CWE-444, inconsistent interpretation of HTTP requests ("request smuggling"), and CWE-770, allocation of resources
without limits: requests that a proxy may delimit differently than the broker, and heads above 64 KiB, are refused and
the connection is closed."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import pytest

import leveret
from tests.support.smuggling import AMBIGUOUS, CHUNKED, CLEAR, POST, SMUGGLED, WHOAMI

pytestmark = pytest.mark.broker


def answers(broker: leveret.Broker, *pieces: bytes) -> list[int]:
    """The statuses of all responses until the broker closes the connection."""
    address = urlsplit(broker.http_url)
    with socket.create_connection((address.hostname, address.port or 0), timeout=60) as peer:
        received = b""
        try:
            for piece in pieces:
                peer.sendall(piece)
            while part := peer.recv(65536):
                received += part
        except ConnectionError:  # reset, since the broker did not read all of it
            pass
    return [int(part[:3]) for part in received.split(b"HTTP/1.1 ")[1:]]


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_an_ambiguous_request_is_refused_and_ends_the_connection(broker: leveret.Broker, name: str) -> None:
    before = [200] if name.startswith("a second request") else []
    assert answers(broker, AMBIGUOUS[name]) in ([*before, 400], before)  # a reset may overtake the response


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_it_is_refused_however_it_is_cut(broker: leveret.Broker, name: str) -> None:
    sent = AMBIGUOUS[name]
    half = sent.index(b"\n") + 1
    assert (
        200 not in answers(broker, sent[: half - 1], sent[half - 1 : half], sent[half:])[name.startswith("a second") :]
    )


@pytest.mark.parametrize("name", CLEAR)
def test_a_clear_request_is_answered_and_the_connection_goes_on(broker: leveret.Broker, name: str) -> None:
    last = WHOAMI + b"Connection: close\r\n\r\n"
    assert answers(broker, CLEAR[name], last) == [200, 200]


def test_a_trailer_field_is_refused(broker: leveret.Broker) -> None:
    """The broker has no use for them, and a bare LF in them would end the request for one side only."""
    sent = POST + CHUNKED + b"\r\n2\r\n{}\r\n0\r\nX: y\n\n" + SMUGGLED
    assert 200 not in answers(broker, sent)


def test_a_chunk_without_crlf_behind_it_is_refused(broker: leveret.Broker) -> None:
    """CVE-2025-43859: h11 before 0.16 takes any two bytes for the end of a chunk."""
    sent = POST + CHUNKED + b"\r\n2\r\n{}XX0\r\n\r\n" + SMUGGLED
    assert 200 not in answers(broker, sent)
