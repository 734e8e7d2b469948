"""Every error that closes a channel: its code and text, the method named, and that everybody else goes on."""

from __future__ import annotations

import pytest

from leveret.wire.constants import FRAME_HEADER
from leveret.wire.frames import CONTENT_HEADER, frame, method_frame
from leveret.wire.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    BasicNack,
    BasicPublish,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
    TxCommit,
    TxRollback,
    TxSelect,
    TxSelectOk,
)
from leveret.wire.properties import Properties
from tests.support.raw_client import RawClient, publish_bytes

Said = tuple[bytes | Method, ...]
PUBLISH = BasicPublish("", "nowhere")


def message(key: str, properties: Properties, exchange: str = "") -> bytes:
    return publish_bytes(BasicPublish(exchange, key), b"hello", properties)


def cc(value: object) -> Properties:
    return Properties(headers={"CC": value})  # type: ignore[dict-item]


INTERNAL = ExchangeDeclare("inside", "fanout", internal=True, nowait=True)
SEIZED = (QueueDeclare("seized", nowait=True), BasicConsume("seized", "first", exclusive=True, nowait=True))
SHARED = (QueueDeclare("shared", nowait=True), BasicConsume("shared", "first", nowait=True))
KEPT = QueueDeclare("kept", durable=True, nowait=True, arguments={"x-message-ttl": 1000})
TOPIC = ExchangeDeclare("subjects", "topic", nowait=True)
BOUND = (TOPIC, QueueDeclare("b", nowait=True), QueueBind("b", "subjects", "#", nowait=True))
FULL = (QueueDeclare("full", nowait=True), message("full", Properties()))
LOCKED = "cannot obtain exclusive access to locked queue 'bystander's' in vhost '/'"
DEFAULT = "operation not permitted on the default exchange"

CHANNEL_ERRORS: dict[str, tuple[Said, int, tuple[int, int], str]] = {
    "declaring an amq. queue": ((QueueDeclare("amq.mine"),), 403, QueueDeclare.id, "reserved prefix 'amq.*'"),
    "declaring an amq. exchange": ((ExchangeDeclare("amq.mine"),), 403, ExchangeDeclare.id, "reserved prefix"),
    "deleting a predeclared exchange": ((ExchangeDelete("amq.topic"),), 403, ExchangeDelete.id, ""),
    "declaring the default exchange": ((ExchangeDeclare(""),), 403, ExchangeDeclare.id, DEFAULT),
    "asking for the default exchange": ((ExchangeDeclare("", passive=True),), 403, ExchangeDeclare.id, DEFAULT),
    "deleting the default exchange": ((ExchangeDelete(""),), 403, ExchangeDelete.id, DEFAULT),
    "binding to the default exchange": (
        (
            QueueDeclare("b", nowait=True),
            QueueBind("b", "", "k"),
        ),
        403,
        QueueBind.id,
        DEFAULT,
    ),
    "unbinding from the default exchange": (
        (
            QueueDeclare("b", nowait=True),
            QueueUnbind("b", "", "b"),
        ),
        403,
        QueueUnbind.id,
        DEFAULT,
    ),
    "binding the default exchange": ((ExchangeBind("", "amq.topic", "k"),), 403, ExchangeBind.id, DEFAULT),
    "publishing to an internal exchange": (
        (
            INTERNAL,
            BasicPublish("inside", ""),
        ),
        403,
        PUBLISH.id,
        "internal exchange 'inside'",
    ),
    "exclusive consume on a consumed queue": (
        (
            *SHARED,
            BasicConsume("shared", exclusive=True),
        ),
        403,
        BasicConsume.id,
        "in exclusive use",
    ),
    "consume on an exclusively consumed one": (
        (
            *SEIZED,
            BasicConsume("seized"),
        ),
        403,
        BasicConsume.id,
        "in exclusive use",
    ),
    "publish to an unknown exchange": (
        (BasicPublish("none", ""),),
        404,
        PUBLISH.id,
        "NOT_FOUND - no exchange 'none' in vhost '/'",
    ),
    "unknown exchange, whole message": (
        (message("k", Properties(), "none"),),
        404,
        PUBLISH.id,
        "NOT_FOUND - no exchange 'none' in vhost '/'",
    ),
    "passive exchange": ((ExchangeDeclare("none", passive=True),), 404, ExchangeDeclare.id, "no exchange 'none'"),
    "passive queue": (
        (QueueDeclare("none", passive=True),),
        404,
        QueueDeclare.id,
        "NOT_FOUND - no queue 'none' in vhost '/'",
    ),
    "consume from an unknown queue": ((BasicConsume("none"),), 404, BasicConsume.id, "no queue 'none'"),
    "get from an unknown queue": ((BasicGet("none"),), 404, BasicGet.id, "no queue 'none'"),
    "purge an unknown queue": ((QueuePurge("none"),), 404, QueuePurge.id, "no queue 'none'"),
    "bind an unknown queue": ((QueueBind("none", "amq.topic", "k"),), 404, QueueBind.id, "no queue 'none'"),
    "bind to an unknown exchange": (
        (
            QueueDeclare("b", nowait=True),
            QueueBind("b", "none", ""),
        ),
        404,
        QueueBind.id,
        "no exchange 'none'",
    ),
    "bind an unknown exchange": ((ExchangeBind("none", "amq.topic", "k"),), 404, ExchangeBind.id, "no exchange 'none'"),
    "bind an exchange to an unknown one": (
        (ExchangeBind("amq.topic", "none", ""),),
        404,
        ExchangeBind.id,
        "no exchange 'none'",
    ),
    "no last queue to get from": ((BasicGet(""),), 404, BasicGet.id, ""),
    "no last queue to consume": ((BasicConsume(""),), 404, BasicConsume.id, ""),
    "no last queue to bind": ((QueueBind("", "amq.topic"),), 404, QueueBind.id, ""),
    "no last queue to purge": ((QueuePurge(""),), 404, QueuePurge.id, ""),
    "no last queue to delete": ((QueueDelete(""),), 404, QueueDelete.id, ""),
    "no last queue to ask for": ((QueueDeclare("", passive=True),), 404, QueueDeclare.id, ""),
    "declaring another's exclusive queue": (
        (QueueDeclare("bystander's", exclusive=True),),
        405,
        QueueDeclare.id,
        LOCKED,
    ),
    "asking for another's exclusive queue": (
        (QueueDeclare("bystander's", passive=True),),
        405,
        QueueDeclare.id,
        LOCKED,
    ),
    "consuming another's exclusive queue": ((BasicConsume("bystander's"),), 405, BasicConsume.id, LOCKED),
    "getting from another's exclusive queue": ((BasicGet("bystander's"),), 405, BasicGet.id, LOCKED),
    "purging another's exclusive queue": ((QueuePurge("bystander's"),), 405, QueuePurge.id, LOCKED),
    "deleting another's exclusive queue": ((QueueDelete("bystander's"),), 405, QueueDelete.id, LOCKED),
    "binding another's exclusive queue": ((QueueBind("bystander's", "amq.topic", "k"),), 405, QueueBind.id, LOCKED),
    "another durable": (
        (
            KEPT,
            QueueDeclare("kept"),
        ),
        406,
        QueueDeclare.id,
        "inequivalent arg 'durable' for queue 'kept' in vhost '/': received 'false' but current is 'true'",
    ),
    "another argument": (
        (
            KEPT,
            QueueDeclare("kept", durable=True, arguments={"x-message-ttl": 2}),
        ),
        406,
        QueueDeclare.id,
        "inequivalent arg 'x-message-ttl' for queue 'kept' in vhost '/': received '2' but current is '1000'",
    ),
    "a missing argument": (
        (
            KEPT,
            QueueDeclare("kept", durable=True),
        ),
        406,
        QueueDeclare.id,
        "received none but current is",
    ),
    "another auto-delete": (
        (
            KEPT,
            QueueDeclare("kept", durable=True, auto_delete=True),
        ),
        406,
        QueueDeclare.id,
        "'auto_delete'",
    ),
    "another exchange type": (
        (
            TOPIC,
            ExchangeDeclare("subjects", "direct"),
        ),
        406,
        ExchangeDeclare.id,
        "inequivalent arg 'type' for exchange 'subjects' in vhost '/': received 'direct' but current is 'topic'",
    ),
    "another exchange durability": (
        (
            TOPIC,
            ExchangeDeclare("subjects", "topic", durable=True),
        ),
        406,
        ExchangeDeclare.id,
        "'durable'",
    ),
    "an unusable argument": (
        (QueueDeclare("bad", arguments={"x-message-ttl": -1}),),
        406,
        QueueDeclare.id,
        "x-message-ttl",
    ),
    "unknown exchange type": ((ExchangeDeclare("odd", "x-odd"),), 406, ExchangeDeclare.id, "x-odd"),
    "ack of an unknown tag": ((BasicAck(7),), 406, BasicAck.id, "PRECONDITION_FAILED - unknown delivery tag 7"),
    "ack of tag 0": ((BasicAck(0),), 406, BasicAck.id, "unknown delivery tag 0"),
    "ack of many unknown tags": ((BasicAck(7, True),), 406, BasicAck.id, "unknown delivery tag 7"),
    "nack of an unknown tag": ((BasicNack(7),), 406, BasicNack.id, "unknown delivery tag 7"),
    "reject of an unknown tag": ((BasicReject(7),), 406, BasicReject.id, "unknown delivery tag 7"),
    "expiration that is no number": ((message("q", Properties(expiration="soon")),), 406, PUBLISH.id, "soon"),
    "expiration below zero": ((message("q", Properties(expiration="-1")),), 406, PUBLISH.id, "-1"),
    "expiration without digits": ((message("q", Properties(expiration="")),), 406, PUBLISH.id, "expiration"),
    "another's user-id": (
        (message("q", Properties(user_id="root")),),
        406,
        PUBLISH.id,
        "user_id property set to 'root' but authenticated user was 'guest'",
    ),
    "CC that is no array": ((message("q", cc("k")),), 406, PUBLISH.id, "CC"),
    "message too large": (
        (
            PUBLISH,
            frame(FRAME_HEADER, 1, CONTENT_HEADER.pack(60, 0, (16 << 20) + 1) + b"\0\0"),
        ),
        406,
        PUBLISH.id,
        "message size 16777217 is larger than configured max size 16777216",
    ),
    "queue in use": (
        (
            *SHARED,
            QueueDelete("shared", if_unused=True),
        ),
        406,
        QueueDelete.id,
        "queue 'shared' in vhost '/' in use",
    ),
    "queue not empty": (
        (
            *FULL,
            QueueDelete("full", if_empty=True),
        ),
        406,
        QueueDelete.id,
        "queue 'full' in vhost '/' is not empty",
    ),
    "exchange in use": (
        (
            *BOUND,
            ExchangeDelete("subjects", if_unused=True),
        ),
        406,
        ExchangeDelete.id,
        "exchange 'subjects' in vhost '/' in use",
    ),
    "commit without a transaction": ((TxCommit(),), 406, TxCommit.id, "channel is not transactional"),
    "rollback without a transaction": ((TxRollback(),), 406, TxRollback.id, "channel is not transactional"),
    "missing reply consumer": (
        (message("q", Properties(reply_to="amq.rabbitmq.reply-to")),),
        406,
        PUBLISH.id,
        "fast reply consumer does not exist",
    ),
    "reply consumer with acks": (
        (BasicConsume("amq.rabbitmq.reply-to"),),
        406,
        BasicConsume.id,
        "reply consumer cannot acknowledge",
    ),
    "second reply consumer": (
        (*[BasicConsume("amq.rabbitmq.reply-to", no_ack=True, nowait=True)] * 2,),
        406,
        BasicConsume.id,
        "reply consumer already set",
    ),
}


@pytest.mark.parametrize("row", CHANNEL_ERRORS)
@pytest.mark.feature("S4-05", "S4-37", "S4-46", "S4-81")
def test_channel_errors_close_that_channel_only(row: str, client: RawClient, bystander: RawClient) -> None:
    """Code, text and method; the connection's other channel and other peers go on."""
    said, code, method, text = CHANNEL_ERRORS[row]
    client.send_bytes(b"".join(each if isinstance(each, bytes) else method_frame(1, each) for each in said))
    closed = client.expect_channel_close(code)
    assert (closed.class_id, closed.method_id) == method
    assert text in closed.reply_text
    client.is_alive(2)
    client.open_channel(1)  # the number is free again
    client.is_alive(1)
    bystander.is_alive()


def test_confirm_after_tx_and_the_reverse_are_refused(client: RawClient) -> None:
    client.call(TxSelect(), TxSelectOk, 1)
    client.send(ConfirmSelect(), 1)
    assert (
        client.expect_channel_close(406, 1).reply_text == "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
    )
    client.call(ConfirmSelect(), ConfirmSelectOk, 2)
    client.send(TxSelect(), 2)
    assert (
        client.expect_channel_close(406, 2).reply_text == "PRECONDITION_FAILED - cannot switch from confirm to tx mode"
    )


@pytest.mark.feature("S0-08", "S0-13")
def test_mandatory_and_unroutable_is_returned_before_its_confirm(client: RawClient) -> None:
    """Basic.return 312 with the message, then the ack."""
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("", "nobody", b"back", Properties(message_id="m"), mandatory=True)
    returned = client.expect_content(BasicReturn)
    assert isinstance(returned.method, BasicReturn)
    assert (returned.method.reply_code, returned.method.reply_text) == (312, "NO_ROUTE")
    assert (returned.body, returned.properties.message_id) == (b"back", "m")
    assert client.expect(BasicAck).delivery_tag == 1


@pytest.mark.feature("S0-10", "S0-13")
def test_unroutable_and_not_mandatory_is_confirmed_and_never_returned(client: RawClient) -> None:
    client.call(ConfirmSelect(), ConfirmSelectOk)
    client.publish("", "nobody", b"gone")
    assert client.expect(BasicAck).delivery_tag == 1
    client.is_alive()
