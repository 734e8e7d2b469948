"""Messages as ``leveret consume`` prints them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from leveret.cli.delivery_text import as_hex_line, as_line, as_short_line, of_delivery, of_row
from leveret.client import Delivery, Properties
from leveret.wire.properties import encode_properties

CHANNEL = cast(Any, None)


@pytest.mark.parametrize(
    ("body", "line"),
    [(b"text", "text"), (b"\xff\x00", "ff 00"), (b"\xff" * 1000, "ff " * 64 + "... (1000 bytes)")],
    ids=["text", "binary", "long binary"],
)
def test_a_binary_body_is_printed_in_hex_and_shortened(body: bytes, line: str) -> None:
    delivery = of_delivery(Delivery(CHANNEL, "tag", 1, False, "", "q", encode_properties(Properties()), body))
    assert as_line(delivery) == f"(AMQP default)  q  {line}\n".encode()
    assert as_hex_line(delivery) == f"(AMQP default)  q  {body.hex(' ')}\n".encode()


@pytest.mark.parametrize(
    ("body", "size", "line"),
    [("short", 5, "short"), ("x" * 1004, 5000, "x" * 1000 + " ... (5000 bytes)"), ("é" * 502, 1004, "é" * 500)],
    ids=["short", "long", "cut in a character"],
)
def test_a_long_text_is_shortened_in_a_terminal(body: str, size: int, line: str) -> None:
    row = {"exchange": "e", "routing_key": "k", "redelivered": False, "properties": {"headers": {"x-stream-offset": 7}}}
    message = of_row(row | {"payload": body, "payload_encoding": "string", "payload_bytes": size})
    assert as_short_line(message).decode().startswith(f"7  e  k  {line}")
    assert len(as_short_line(message)) < 1100
