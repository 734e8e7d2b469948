"""Subscriptions, acks and transactions: what a client sees in the same way at RabbitMQ's plugin and at Leveret."""

from __future__ import annotations

from tests.compat.stomp_stage import Scenario, StompStage, given, left, named

SCENARIOS: list[Scenario] = []
VERSIONS = ("1.0", "1.1", "1.2")


def scenario(play: Scenario) -> Scenario:
    SCENARIOS.append(play)
    return play


# ---- acks


@scenario
def acks_for_all_before_them(stage: StompStage) -> object:
    """S4-52."""
    answers = []
    for version in VERSIONS:
        client, messages = given(stage, 4, version, ack="client")
        client.sure("ACK", **named(messages[2], version))
        answers.append(left(stage, client, 1))
    return answers


@scenario
def acks_of_one(stage: StompStage) -> object:
    answers = []
    for version in VERSIONS:
        client, messages = given(stage, 4, version, ack="client-individual")
        client.sure("ACK", **named(messages[2], version))
        answers.append(left(stage, client, 3))
    return answers


@scenario
def no_acks(stage: StompStage) -> object:
    return left(stage, given(stage, 3)[0], 0), left(stage, given(stage, 3, ack="client")[0], 3)


@scenario
def nacks_that_drop(stage: StompStage) -> object:
    """S4-55."""
    answers = []
    for mode, number in (("client", 2), ("client-individual", 3)):
        client, messages = given(stage, 4, ack=mode)
        client.sure("NACK", id=messages[1]["ack"], requeue="false")
        answers.append(left(stage, client, number))
    return answers


@scenario
def nacks_that_requeue(stage: StompStage) -> object:
    answers: list[object] = []
    for version in VERSIONS:
        client, messages = given(stage, 2, version, ack="client-individual")
        client.say("NACK", **named(messages[0], version))
        answers.append(client.read())
        left(stage, client, 2)
    return answers


@scenario
def acks_of_nothing(stage: StompStage) -> object:
    stale = "T_s@@session-x@@1"
    answers: list[object] = []
    for version, header in (("1.0", "message-id"), ("1.1", "message-id"), ("1.2", "id")):
        for command in ("ACK",) if version == "1.0" else ("ACK", "NACK"):
            wrong: tuple[dict[str, object], ...] = ({}, {header: "nonsense"}, {header: stale})
            answers += [stage.open(version).ask(command, **each) for each in wrong]
    return answers


@scenario
def acks_twice_or_of_what_needs_none(stage: StompStage) -> object:
    answers: list[object] = []
    for mode in ("client-individual", "auto"):
        client, (message,) = given(stage, 1, ack=mode)
        for _ in range(2):
            client.say("ACK", id=message["message-id"])
        answers.append(client.read())
    return answers


@scenario
def prefetch(stage: StompStage) -> object:
    """S3-18."""
    client = stage.open()
    for each in range(4):
        client.say("SEND", b"%d" % each, destination=stage.queue())
    client.say("SUBSCRIBE", destination=stage.queue(), id="s", ack="client-individual", prefetch_count=2)
    first = client.messages(2)
    quiet = client.heard()
    client.say("ACK", id=first[0]["ack"])
    return first, quiet, client.read()


# ---- subscriptions


@scenario
def receipts_of_every_command(stage: StompStage) -> object:
    """S4-74."""
    client = stage.open()
    asked: tuple[tuple[str, dict[str, object]], ...] = (
        ("SUBSCRIBE", {"destination": stage.queue("a"), "id": "s", "ack": "client"}),
        ("SEND", {"destination": stage.queue("b")}),
        ("BEGIN", {"transaction": "t"}),
        ("ABORT", {"transaction": "t"}),
        ("BEGIN", {"transaction": "u"}),
        ("COMMIT", {"transaction": "u"}),
        ("UNSUBSCRIBE", {"id": "s"}),
        ("DISCONNECT", {}),
    )
    answers: list[object] = [(command, client.ask(command, **headers)) for command, headers in asked]
    quiet = stage.open()
    quiet.say("DISCONNECT")
    return answers, client.is_closed(), quiet.heard(asked=False)


@scenario
def subscriptions_that_are_none(stage: StompStage) -> object:
    answers: list[object] = []
    for headers in ({"id": "1"}, {}):
        client = stage.open()
        client.sure("SUBSCRIBE", destination=stage.queue(), **headers)
        answers.append(client.ask("SUBSCRIBE", destination=stage.queue(), **headers))
    for wrong in ({"id": "other"}, {"destination": stage.queue("other")}, {}):
        client = stage.open()
        client.sure("SUBSCRIBE", destination=stage.queue(), id="1")
        answers.append(client.ask("UNSUBSCRIBE", **wrong))
    for destination in (stage.queue(), stage.topic("t")):
        answers.append(stage.open().ask("SUBSCRIBE", destination=destination, durable="true"))
    answers.append(stage.open().ask("UNSUBSCRIBE", destination=stage.queue(), durable="true"))
    return answers


@scenario
def a_queue_is_deleted_under_its_subscription(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    stage.channel.queue_delete(stage.name())
    return client.read(), client.heard()


@scenario
def durable_subscriptions(stage: StompStage) -> object:
    """Of a topic; UNSUBSCRIBE keeps it, unless it says durable too."""
    answers: list[object] = []
    headers = {"destination": stage.topic("news"), "id": "me", "durable": "true", "auto-delete": "false"}
    sender = stage.open()

    def send(body: bytes) -> None:
        sender.say("SEND", body, destination=stage.topic("news"))
        sender.heard()

    for is_leaving in (True, False):
        client = stage.open()
        client.sure("SUBSCRIBE", **headers)
        if is_leaving:
            client.leave()
        else:
            client.sure("UNSUBSCRIBE", id="me")
        send(b"missed")
        client = stage.open()
        client.say("SUBSCRIBE", **headers)
        answers.append(client.read())
        client.sure("UNSUBSCRIBE", **headers)
        send(b"nobody wants it")
    client.sure("SUBSCRIBE", **headers)
    send(b"new")
    answers.append(client.read().body)
    client.sure("UNSUBSCRIBE", **headers)
    return answers


@scenario
def subscriptions_with_a_queue_of_this_name(stage: StompStage) -> object:
    """Two of them may share it."""
    one, two = stage.open(), stage.open()
    answers = [
        each.ask("SUBSCRIBE", destination=stage.topic("t"), id="s", x_queue_name=stage.name("named"))
        for each in (one, two)
    ]
    durable = {"durable": "true", "auto-delete": "false", "x-queue-name": stage.name("kept")}
    one.sure("SUBSCRIBE", destination=stage.topic("t"), id="d", **durable)
    return answers, stage.declared("named"), stage.declared("kept")


# ---- transactions


@scenario
def transactions(stage: StompStage) -> object:
    """S3-16: several at once, each as a whole."""
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    for name in "abc":
        client.say("BEGIN", transaction=name)
    for number, name in enumerate("abcabc"):
        client.say("SEND", b"%s%d" % (name.encode(), number), destination=stage.queue(), transaction=name)
    client.say("SEND", b"outside", destination=stage.queue())
    first = client.read()
    client.say("ABORT", transaction="c")
    client.say("COMMIT", transaction="b")
    client.say("COMMIT", transaction="a")
    return first, client.bodies(4)


@scenario
def transactions_that_are_none(stage: StompStage) -> object:
    answers: list[object] = []
    for command in ("COMMIT", "ABORT", "SEND"):
        answers.append(stage.open().ask(command, transaction="none", destination=stage.queue()))
    answers += [stage.open().ask(command) for command in ("BEGIN", "COMMIT", "ABORT")]
    client = stage.open()
    client.sure("BEGIN", transaction="t")
    client.sure("COMMIT", transaction="t")
    return [*answers, client.ask("COMMIT", transaction="t")]


@scenario
def acks_in_transactions(stage: StompStage) -> object:
    answers = []
    for end, number in (("COMMIT", 2), ("ABORT", 4), (None, 4)):
        client, messages = given(stage, 4, ack="client")
        client.sure("BEGIN", transaction="t")
        client.say("ACK", id=messages[1]["ack"], transaction="t")
        if end is not None:
            client.sure(end, transaction="t")
        answers.append(left(stage, client, number))
    return answers


@scenario
def acks_after_an_abort(stage: StompStage) -> object:
    client, messages = given(stage, 2, ack="client-individual")
    client.sure("BEGIN", transaction="t")
    client.say("ACK", id=messages[0]["ack"], transaction="t")
    client.sure("ABORT", transaction="t")
    client.sure("ACK", id=messages[0]["ack"])
    return left(stage, client, 1)
