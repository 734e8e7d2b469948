"""Where Leveret is not as RabbitMQ's plugin, on purpose: each difference with what both show. docs/compat.md says why.

A scenario here returns what its client saw; the decorator says what that is at RabbitMQ and at Leveret. A difference
that is gone, on either side, is a failure.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import NamedTuple

import pika

from tests.compat.stomp_stage import PROBE, Scenario, StompStage, Talker, given
from tests.support.stomp_client import StompFrame


class Difference(NamedTuple):
    play: Scenario
    rabbitmq: object
    leveret: object


DIFFERENCES: list[Difference] = []


def differs(*, rabbitmq: object, leveret: object) -> Callable[[Scenario], Scenario]:
    def note(play: Scenario) -> Scenario:
        DIFFERENCES.append(Difference(play, rabbitmq, leveret))
        return play

    return note


def message_of(answer: StompFrame) -> str:
    """What an ERROR is called; of others their command."""
    return answer["message"] if answer.command == "ERROR" else answer.command


def last_words(client: Talker) -> object:
    """The message of an ERROR, or how it goes on without one."""
    first = client.heard()[0]
    return message_of(first) if isinstance(first, StompFrame) else first


# ---- CONNECT and errors


@differs(rabbitmq=["lives", "lives"], leveret=["closed", "closed"])
def an_error_ends_the_connection(stage: StompStage) -> object:
    answers = []
    for headers in ({"destination": "/nothing"}, {}):
        client = stage.open()
        client.ask("SEND", **headers)
        answers.append(client.heard()[-1])
    return answers


@differs(rabbitmq=None, leveret="r")
def an_error_names_the_receipt(stage: StompStage) -> object:
    return stage.open().ask("SEND", destination="/nothing").headers.get("receipt-id")


@differs(rabbitmq=["ERROR", "RECEIPT"], leveret=["ERROR"])
def what_failed_has_no_receipt(stage: StompStage) -> object:
    client = stage.open()
    client.say("SUBSCRIBE", destination=f"/amq/queue/{stage.name('nowhere')}", id="1", receipt="r")
    return [frame.command for frame in client.heard() if isinstance(frame, StompFrame)]


@differs(rabbitmq=["1000,1000", "2000,1000"], leveret=["100,100", "2500,1500"])
def heart_beats_are_kept_to_the_millisecond(stage: StompStage) -> object:
    return [stage.talker().greet(heart_beat=each)["heart-beat"] for each in ("10,10", "1500,2500")]


@differs(rabbitmq=["Bad CONNECT"] * 3, leveret=["CONNECTED"] * 3)
def a_host_that_is_the_brokers_address_is_the_default_one(stage: StompStage) -> object:
    return [message_of(stage.talker().greet(host=host)) for host in ("localhost", "127.0.0.1", "")]


@differs(rabbitmq="1.0", leveret="1.1")
def blanks_between_versions_do_not_count(stage: StompStage) -> object:
    return stage.talker().greet(accept_version="1.0, 1.1")["version"]


@differs(rabbitmq="closed", leveret="Illegal command")
def a_second_connect_is_told(stage: StompStage) -> object:
    client = stage.open()
    client.say("CONNECT", login="guest", passcode="guest")
    return last_words(client)


@differs(rabbitmq="Illegal command", leveret="Bad command")
def a_stranger_is_told_that_it_speaks_no_stomp(stage: StompStage) -> object:
    client = stage.talker()
    client.say("HELLO")
    return message_of(client.read())


@differs(rabbitmq=["Processing error"] * 4, leveret=["Invalid header"] * 4)
def a_value_that_cannot_be_is_named(stage: StompStage) -> object:
    wrong: tuple[tuple[str, dict[str, object]], ...] = (
        ("SUBSCRIBE", {"ack": "other"}),
        ("SUBSCRIBE", {"prefetch-count": "many"}),
        ("SEND", {"persistent": "yes"}),
        ("SEND", {"priority": "high"}),
    )
    return [
        message_of(stage.open().ask(command, destination=stage.queue(), id="1", **headers))
        for command, headers in wrong
    ]


@differs(rabbitmq=["closed"] * 3, leveret=["Malformed frame", "Malformed frame", "Invalid header"])
def a_malformed_frame_is_told(stage: StompStage) -> object:
    answers = []
    for line in (b"no colon", rb"odd:\t", b"content-length:x"):
        client = stage.open()
        client.socket.sendall(b"SEND\ndestination:/queue/x\n" + line + b"\n\nm\0")
        answers.append(last_words(client))
    return answers


# ---- messages


@differs(rabbitmq=[r"x\cy", r"c\cd\ne\\f\rg"], leveret=["x:y", r"c:d e\f g"])
def nothing_is_escaped_in_1_0(stage: StompStage) -> object:
    client = stage.open("1.0")
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    client.say("SEND", b"m", destination=stage.queue(), mine="x:y")
    first = client.read()["mine"]
    stage.publish("q", pika.BasicProperties(headers={"mine": "c:d\ne\\f\rg"}))
    return first, client.read()["mine"]


@differs(rabbitmq=r"a\rb", leveret="a\rb")
def a_carriage_return_has_no_escape_in_1_1(stage: StompStage) -> object:
    client = stage.open("1.1")
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    stage.publish("q", pika.BasicProperties(headers={"mine": "a\rb"}))
    return client.read()["mine"]


@differs(rabbitmq=None, leveret="0")
def an_empty_body_has_a_length(stage: StompStage) -> object:
    client = stage.open()
    client.say("SUBSCRIBE", destination=stage.queue(), id="s")
    client.say("SEND", destination=stage.queue())
    return client.read().headers.get("content-length")


@differs(rabbitmq={"content-length": "1", "receipt": "r", "transaction": "t"}, leveret=None)
def what_was_meant_for_the_broker_does_not_travel(stage: StompStage) -> object:
    client = stage.open()
    client.say("BEGIN", transaction="t")
    headers = {"destination": stage.queue(), "transaction": "t", "content-length": 1, "receipt": "r"}
    client.say("SEND", b"m", **headers)
    client.say("COMMIT", transaction="t")
    stage.comes_to(1)
    properties = stage.got()[-1]
    assert isinstance(properties, dict)
    return properties.get("headers")


@differs(rabbitmq="Invalid header", leveret="RECEIPT")
def a_send_may_have_a_message_id(stage: StompStage) -> object:
    return message_of(stage.open().ask("SEND", destination=stage.queue(), message_id="mine"))


@differs(rabbitmq=[None, None, None, "1"], leveret=["true", "1.5", "1577836800", None])
def headers_of_more_types_are_shown(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    moment = pika.data.datetime(2020, 1, 1)
    headers = {"bool": True, "decimal": Decimal("1.5"), "time": moment}
    stage.publish("q", pika.BasicProperties(headers=headers, delivery_mode=1))
    message = client.read()
    return [message.headers.get(name) for name in (*headers, "persistent")]


# ---- destinations


@differs(rabbitmq=[0, "no such queue", "/queue/%C3%A4"], leveret=["no such queue", 0, "/queue/ä"])
def any_escape_of_a_destination_is_read(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue("a%20b"), id="1")
    found = [stage.count("a%20b"), stage.count("a b")]
    client.sure("SUBSCRIBE", destination=stage.queue("ä"), id="2")
    client.say("SEND", b"m", destination=stage.queue("ä"))
    return [*found, client.read()["destination"]]


@differs(rabbitmq="otherwise", leveret="durable")
def any_argument_of_a_queue_may_be_given(stage: StompStage) -> object:
    stage.open().sure("SUBSCRIBE", destination=stage.queue(), id="1", x_overflow="reject-publish")
    return stage.declared("q", {"x-overflow": "reject-publish"})


@differs(rabbitmq="resource_locked", leveret="RECEIPT")
def persistent_is_about_the_message(stage: StompStage) -> object:
    stage.open().sure("SEND", destination=stage.queue())
    return message_of(stage.open().ask("SEND", destination=stage.queue(), persistent="false"))


@differs(rabbitmq="no such queue", leveret=1)
def a_queue_that_was_deleted_is_made_again(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SEND", destination=stage.queue())
    stage.channel.queue_delete(stage.name())
    client.sure("SEND", destination=stage.queue())
    return stage.count()


# ---- subscriptions


@differs(rabbitmq=b"blue", leveret=b"red")
def a_selector_selects(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s", selector="colour = 'red'")
    for colour in ("blue", "red"):
        client.say("SEND", colour.encode(), destination=stage.queue(), colour=colour)
    return client.read().body


@differs(rabbitmq=b"new", leveret=b"missed")
def durable_alone_is_enough(stage: StompStage) -> object:
    """RabbitMQ wants auto-delete:false as well."""
    headers = {"destination": stage.topic("news"), "id": "me", "durable": "true"}
    client = stage.open()
    client.sure("SUBSCRIBE", **headers)
    client.leave()
    sender = stage.open()
    sender.sure("SEND", b"missed", destination=stage.topic("news"))
    client = stage.open()
    client.say("SUBSCRIBE", **headers)
    client.say("SEND", b"new", destination=stage.topic("news"))
    body = client.read().body
    client.say("UNSUBSCRIBE", **headers)
    client.heard()
    return body


@differs(rabbitmq=0, leveret="no such queue")
def a_durable_subscription_is_deleted_whatever_its_queue_is_called(stage: StompStage) -> object:
    headers = {"destination": stage.topic("t"), "id": "me", "durable": "true"}
    client = stage.open()
    client.sure("SUBSCRIBE", **headers, auto_delete="false", x_queue_name=stage.name("mine"))
    client.sure("UNSUBSCRIBE", **headers)
    return stage.count("mine")


@differs(rabbitmq=["Processing error", "Invalid id"], leveret=["Invalid id", "RECEIPT"])
def a_temporary_queue_can_be_given_up(stage: StompStage) -> object:
    refused = message_of(stage.open().ask("SUBSCRIBE", destination=stage.queue(), id="/temp-queue/x"))
    client = stage.open()
    client.sure("SEND", destination=stage.queue(), reply_to="/temp-queue/x")
    return refused, message_of(client.ask("UNSUBSCRIBE", id="/temp-queue/x"))


# ---- acks and transactions


@differs(rabbitmq=[0, 0], leveret=[1, 0])
def client_acks_speak_for_their_own_subscription(stage: StompStage) -> object:
    client = stage.open()
    messages = []
    for name in ("a", "b"):
        client.sure("SUBSCRIBE", destination=stage.queue(name), id=name, ack="client")
        client.say("SEND", b"m", destination=stage.queue(name))
        messages.append(client.read())
    client.sure("ACK", id=messages[1]["ack"])
    client.leave()
    return stage.deleted("a"), stage.deleted("b")


@differs(rabbitmq=["Subscription not found", "Missing header"], leveret=["RECEIPT", "RECEIPT"])
def acks_are_taken_by_either_name_and_after_unsubscribe(stage: StompStage) -> object:
    client, (message,) = given(stage, 1, ack="client")
    client.sure("UNSUBSCRIBE", id="s")
    late = message_of(client.ask("ACK", id=message["ack"]))
    client.leave()
    stage.channel.queue_purge(stage.name())
    client, (message,) = given(stage, 1, ack="client")
    return late, message_of(client.ask("ACK", message_id=message["message-id"]))


@differs(rabbitmq="RECEIPT", leveret="Transaction already exists")
def a_transaction_is_not_begun_twice(stage: StompStage) -> object:
    """RabbitMQ forgets what was in the first."""
    client = stage.open()
    client.sure("BEGIN", transaction="t")
    return message_of(client.ask("BEGIN", transaction="t"))


@differs(rabbitmq=["lives"], leveret=["in", "lives"])
def receipts_in_a_transaction_do_not_wait_for_its_end(stage: StompStage) -> object:
    client = stage.open()
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"m", destination=stage.queue(), transaction="t", receipt="in")
    return [frame["receipt-id"] if isinstance(frame, StompFrame) else frame for frame in client.heard()]


@differs(rabbitmq=["lives", 2], leveret=["closed", 0])
def a_transaction_with_an_error_is_not_committed(stage: StompStage) -> object:
    client = stage.open()
    client.say("BEGIN", transaction="t")
    client.say("SEND", b"m", destination=stage.queue(), transaction="t")
    client.say("SEND", b"m", destination="/nothing", transaction="t")
    client.heard()
    with suppress(OSError):
        client.say("COMMIT", transaction="t")
        client.say("SEND", b"behind it", destination=stage.queue(), receipt=PROBE)
    return client.heard(asked=False)[-1], stage.count()
