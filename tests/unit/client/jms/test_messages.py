"""Messages of JMS and their way through the properties and headers of AMQP."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from leveret.client.jms.destinations import Queue, Topic
from leveret.client.jms.errors import MessageFormatError, MessageNotWriteable
from leveret.client.jms.messages import BytesMessage, MapMessage, Message, TextMessage, received
from leveret.client.messages import Delivery
from leveret.wire.properties import Properties, encode_properties


def delivered(properties: Properties, body: bytes = b"", *, redelivered: bool = False, key: str = "q") -> Delivery:
    channel = None  # nobody acks here
    return Delivery(channel, "tag", 1, redelivered, "", key, encode_properties(properties), body)  # type: ignore[arg-type]


def travelled(message: Message) -> Message:
    return received(delivered(message.amqp_properties(), message.encoded_body()))


class Acks:
    def __init__(self) -> None:
        self.acked: list[Message] = []

    def acknowledge(self, message: Message) -> None:
        self.acked.append(message)


# ---- kinds


@pytest.mark.parametrize(
    "message",
    [
        Message(),
        TextMessage(""),
        TextMessage("Grüße"),
        BytesMessage(b""),
        BytesMessage(b"\x00\xff"),
        MapMessage(),
        MapMessage({"amount": 12.5, "tags": ["a", None, True], "more": {"grün": 1}}),
    ],
)
@pytest.mark.feature("S3-01")
def test_a_message_arrives_as_the_kind_that_it_was_sent_as(message: Message) -> None:
    back = travelled(message)
    assert type(back) is type(message)
    assert back.body == message.body


@pytest.mark.parametrize(
    ("content_type", "body", "kind"),
    [
        ("text/html; charset=utf-8", b"<p>", TextMessage),
        ("application/json", b'{"a": 1}', MapMessage),
        ("application/json", b"[1]", TextMessage),
        ("application/json", b"{", BytesMessage),
        ("application/json", b'{"a": NaN}', BytesMessage),
        ("application/json", b"[" * 100_000, BytesMessage),
        ("text/plain", b"\xff", BytesMessage),
        (None, b"x", BytesMessage),
        ("image/png", b"", BytesMessage),
    ],
)
def test_what_other_clients_sent_has_the_kind_that_fits(content_type: str | None, body: bytes, kind: type) -> None:
    message = received(delivered(Properties(content_type=content_type), body))
    assert type(message) is kind
    if kind is BytesMessage:
        assert message.body == body


def test_a_wrong_body_is_refused_when_it_is_set() -> None:
    with pytest.raises(MessageFormatError, match="must be a string, not bytes"):
        TextMessage(b"x")  # type: ignore[arg-type]
    with pytest.raises(MessageFormatError, match="must be bytes, not str"):
        BytesMessage("x")  # type: ignore[arg-type]
    with pytest.raises(MessageFormatError, match="field 'photo' of a map message is bytes"):
        MapMessage({"photo": b"x"})
    with pytest.raises(MessageFormatError, match=r"field 'when' .* JSON"):
        MapMessage({"when": datetime.now(UTC)})
    with pytest.raises(MessageFormatError, match=r"field 'n' .* JSON"):
        MapMessage({"n": float("nan")})
    with pytest.raises(MessageFormatError, match="UTF-8"):
        TextMessage("\ud800").encoded_body()
    with pytest.raises(MessageFormatError, match=r"field 'half' .* surrogates"):
        MapMessage({"half": "\ud800"})


def test_a_map_is_read_and_changed_by_its_names() -> None:
    message = MapMessage({"a": 1})
    message["b"] = 2
    del message["a"]
    assert "b" in message
    assert list(message) == ["b"]
    assert len(message) == 1
    message.body["c"] = 3
    assert "c" not in message


# ---- headers


def test_every_header_of_jms_travels() -> None:
    sent = TextMessage("x")
    sent.message_id, sent.correlation_id, sent.type = "ID:1", "c", "order"
    sent.reply_to = Topic("answers.*")
    sent.delivery_mode, sent.priority = 1, 9
    sent.timestamp, sent.delivery_time = 1_700_000_000.123, 1_700_000_060.5
    sent.group_id = "customer 7"
    sent.properties["weight"] = 3
    back = received(delivered(sent.amqp_properties(30), b"x"))
    assert (back.message_id, back.correlation_id, back.type) == ("ID:1", "c", "order")
    assert back.reply_to == Topic("answers.*")
    assert (back.delivery_mode, back.priority) == (1, 9)
    assert back.timestamp == 1_700_000_000.123
    assert back.delivery_time == 1_700_000_060.5
    assert back.expiration == 1_700_000_090.5  # it lives from when it is due
    assert back.group_id == "customer 7"
    assert dict(back.properties) == {"weight": 3}


def test_the_group_is_the_header_by_which_the_broker_groups() -> None:
    message = TextMessage("x")
    message.group_id = "g"
    headers = message.amqp_properties().headers
    assert headers is not None
    assert headers["x-group-id"] == "g"


def test_a_timestamp_of_whole_seconds_never_lets_a_message_die_too_early() -> None:
    sent = Properties(timestamp=datetime.fromtimestamp(1_700_000_000, UTC), expiration="500")
    message = received(delivered(sent))
    assert message.timestamp == 1_700_000_000
    assert message.expiration == 1_700_000_001.5


def test_without_a_timestamp_nobody_knows_when_a_message_dies() -> None:
    assert received(delivered(Properties(expiration="500"))).expiration == 0
    assert received(delivered(Properties(expiration="soon"))).expiration == 0


def test_what_a_message_of_another_client_does_not_say_is_the_default() -> None:
    message = received(delivered(Properties()))
    assert (message.delivery_mode, message.priority) == (1, 4)
    assert message.reply_to is None
    assert not message.redelivered


@pytest.mark.parametrize("name", ["plain", "queue://plain", "what?consumer.prefetchSize=x", "x" * 255])
def test_any_reply_to_can_be_read(name: str) -> None:
    reply_to = received(delivered(Properties(reply_to=name))).reply_to
    assert isinstance(reply_to, Queue)
    assert reply_to.name == name.removeprefix("queue://")
    assert not reply_to.is_ours


def test_a_message_of_a_pattern_names_the_topic_it_was_sent_to() -> None:
    delivery = delivered(Properties(), key="prices.gold?")
    assert received(delivery, destination=Topic("prices.>")).destination == Topic.exactly("prices.gold?")
    assert received(delivery, destination=Topic("prices.gold")).destination == Topic("prices.gold")


# ---- how often


@pytest.mark.feature("S3-22")
def test_the_delivery_count_adds_what_the_broker_and_the_client_counted() -> None:
    """Of the two counts the broker's lives on in the message."""
    assert Message().delivery_count == 0
    assert received(delivered(Properties())).delivery_count == 1
    assert received(delivered(Properties(), redelivered=True)).delivery_count == 2
    counted = delivered(Properties(headers={"x-delivery-count": 3}), redelivered=True)
    again = received(counted, redeliveries=2)
    assert (again.broker_redeliveries, again.redeliveries, again.delivery_count) == (3, 2, 6)
    assert again.redelivered


def test_counts_and_moments_are_not_sent_on_with_a_message() -> None:
    came = received(
        delivered(Properties(headers={"x-delivery-count": 3, "x-deliver-at": 5, "a": 1, "x-jms-origin": "b"}))
    )
    came.delivery_time = 0
    assert came.amqp_properties().headers == {"a": 1}


# ---- read only


def test_what_was_received_is_read_only_until_it_is_cleared() -> None:
    message = travelled(TextMessage("old"))
    assert isinstance(message, TextMessage)
    with pytest.raises(MessageNotWriteable, match="clear_body"):
        message.text = "new"
    message.clear_body()
    assert message.text == ""
    message.text = "new"
    with pytest.raises(MessageNotWriteable, match="clear_properties"):
        message.properties["a"] = 1
    message.clear_properties()
    message.properties["a"] = 1
    assert (message.text, dict(message.properties)) == ("new", {"a": 1})


def test_a_map_and_bytes_that_were_received_are_read_only() -> None:
    table = travelled(MapMessage({"a": 1}))
    assert isinstance(table, MapMessage)
    with pytest.raises(MessageNotWriteable):
        table["a"] = 2
    with pytest.raises(MessageNotWriteable):
        del table["a"]
    table.clear_body()
    assert table.body == {}
    data = travelled(BytesMessage(b"a"))
    assert isinstance(data, BytesMessage)
    with pytest.raises(MessageNotWriteable):
        data.data = b"b"
    data.clear_body()
    assert data.data == b""


def test_headers_of_what_was_received_can_be_changed_to_send_it_on() -> None:
    message = travelled(TextMessage("x"))
    message.correlation_id = "mine"
    assert message.amqp_properties().correlation_id == "mine"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("", 1, "1 to 255 bytes"),
        ("ü" * 128, 1, "1 to 255 bytes"),
        ("a", [1], "property 'a' is a list"),
        ("a", 1 << 63, "more than 64 bits"),
    ],
)
def test_a_property_that_cannot_be_sent_is_refused(name: str, value: object, problem: str) -> None:
    with pytest.raises(MessageFormatError, match=problem):
        TextMessage("x").properties[name] = value  # type: ignore[assignment]


def test_acknowledge_tells_the_session() -> None:
    acks = Acks()
    message = received(delivered(Properties()), acks)
    message.acknowledge()
    assert acks.acked == [message]
    TextMessage("not received").acknowledge()
