"""The operations of AMQP, each with what it needs, and how to try one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from leveret.api.openapi.description import Needs
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicCancel,
    BasicConsume,
    BasicGet,
    BasicPublish,
    BasicQos,
    BasicRecover,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ConfirmSelect,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
)
from tests.support.raw_client import RawClient, publish_bytes


class Tried(NamedTuple):
    said: Sequence[Method | bytes]
    needs: Needs


def tried(*said: Method | bytes, needs: tuple[str, ...] = ()) -> Tried:
    return Tried(said, Needs(None, "enter", needs))


DEAD_LETTERS = {"x-dead-letter-exchange": "x"}
ALTERNATE = {"alternate-exchange": "x"}

METHODS: dict[str, Tried] = {
    "queue.declare": tried(QueueDeclare("new"), needs=("configure queue",)),
    "queue.declare with x-dead-letter-exchange": tried(
        QueueDeclare("new", arguments=DEAD_LETTERS),
        needs=("configure queue", "read queue", "write dead letter exchange"),
    ),
    "queue.declare, server-named": tried(QueueDeclare("", exclusive=True), needs=("configure queue amq.gen-...",)),
    "queue.declare, passive": tried(QueueDeclare("q", passive=True), needs=("any permission on the queue",)),
    "queue.delete": tried(QueueDelete("q"), needs=("configure queue",)),
    "queue.purge": tried(QueuePurge("q"), needs=("read queue",)),
    "queue.bind": tried(QueueBind("q", "x", "new"), needs=("write queue", "read exchange")),
    "queue.unbind": tried(QueueUnbind("q", "x", "k"), needs=("write queue", "read exchange")),
    "exchange.declare": tried(ExchangeDeclare("new"), needs=("configure exchange",)),
    "exchange.declare with alternate-exchange": tried(
        ExchangeDeclare("new", arguments=ALTERNATE),
        needs=("configure exchange", "read exchange", "write alternate exchange"),
    ),
    "exchange.declare, passive": tried(ExchangeDeclare("x", passive=True), needs=("any permission on the exchange",)),
    "exchange.delete": tried(ExchangeDelete("x"), needs=("configure exchange",)),
    "exchange.bind": tried(ExchangeBind("y", "x", "new"), needs=("write destination", "read source")),
    "exchange.unbind": tried(ExchangeUnbind("y", "x", "k"), needs=("write destination", "read source")),
    "basic.publish": tried(publish_bytes(BasicPublish("x", "none"), b"hello"), needs=("write exchange",)),
    "basic.publish to the default exchange": tried(
        publish_bytes(BasicPublish("", "r"), b"hello"), needs=("write exchange amq.default",)
    ),
    "basic.get": tried(BasicGet("q"), needs=("read queue",)),
    "basic.consume": tried(BasicConsume("q", "tag"), needs=("read queue",)),
    "basic.consume from a stream": tried(BasicQos(0, 10), BasicConsume("s", "tag"), needs=("read queue",)),
    "basic.cancel": tried(BasicCancel("tag")),
    "basic.qos": tried(BasicQos(0, 10)),
    "basic.recover": tried(BasicRecover(requeue=True)),
    "confirm.select": tried(ConfirmSelect()),
    "channel.flow": tried(ChannelFlow(True)),
    "tx.select": tried(TxSelect()),
    "tx.select, publish, commit": tried(
        TxSelect(), publish_bytes(BasicPublish("x", "none"), b"hello"), TxCommit(), needs=("write exchange",)
    ),
    "tx.rollback": tried(TxSelect(), TxRollback()),
}


def attempt(client: RawClient, method: Tried) -> int:
    """0 if it was allowed, else the code of the refusal. On a channel of its own, so that the next finds a new one."""
    client.open_channel(1)
    for each in method.said:
        client.send(each) if isinstance(each, Method) else client.send_bytes(each)
    client.send(ChannelClose(200, "done"))
    code = 0
    while True:
        found = client.next_frame()
        answer = decode_method(found.payload) if found.kind == 1 else None
        if isinstance(answer, ChannelClose):
            code = answer.reply_code
        if isinstance(answer, ChannelCloseOk):
            break
    if code:
        client.send(ChannelCloseOk())
    return code
