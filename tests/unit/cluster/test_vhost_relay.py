"""The link to the home cell of a virtual host, when the client is gone before the link is made."""

from __future__ import annotations

import asyncio
from typing import cast

from leveret.cluster.vhost_relay import HomeSide, HomeTransport
from leveret.server.amqp_protocol import AmqpProtocol
from leveret.wire.grammar import Step
from tests.support.handed_over import CellsWithPlacedVhost


class ClosingTransport(asyncio.Transport):
    """A transport that counts its calls, after it was closed by the other side."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def is_closing(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.calls.append("write")

    def pause_reading(self) -> None:
        self.calls.append("pause_reading")

    def resume_reading(self) -> None:
        self.calls.append("resume_reading")

    def close(self) -> None:
        self.calls.append("close")

    def abort(self) -> None:
        self.calls.append("abort")


def test_a_link_for_a_client_that_is_gone_is_closed() -> None:
    cells = CellsWithPlacedVhost()
    client = cells.near.stranger()
    client.session.lost()
    transport = ClosingTransport()
    side = HomeSide(client.session, cast(AmqpProtocol, client.socket))
    side.connection_made(transport)
    side.pause_writing()
    side.resume_writing()
    side.connection_lost(None)
    assert transport.calls == ["abort"]
    assert client.session.step is Step.CLOSED


def test_nothing_is_written_to_a_link_that_is_closing() -> None:
    transport = ClosingTransport()
    link = HomeTransport(transport)
    link.write(b"late")
    link.pause_reading()
    link.resume_reading()
    link.close()
    assert transport.calls == []
