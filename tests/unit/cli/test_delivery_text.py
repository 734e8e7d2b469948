"""Messages as ``leveret consume`` prints them."""

from __future__ import annotations

from typing import Any, cast

import pytest

from leveret.cli.delivery_text import as_hex_line, as_line
from leveret.client import Delivery, Properties
from leveret.wire.properties import encode_properties

CHANNEL = cast(Any, None)


@pytest.mark.parametrize(
    ("body", "line"),
    [(b"text", "text"), (b"\xff\x00", "ff 00"), (b"\xff" * 1000, "ff " * 64 + "... (1000 bytes)")],
    ids=["text", "binary", "long binary"],
)
def test_a_binary_body_is_printed_in_hex_and_shortened(body: bytes, line: str) -> None:
    delivery = Delivery(CHANNEL, "tag", 1, False, "", "q", encode_properties(Properties()), body)
    assert as_line(delivery) == f"(default)  q  {line}\n".encode()
    assert as_hex_line(delivery) == f"(default)  q  {body.hex(' ')}\n".encode()
