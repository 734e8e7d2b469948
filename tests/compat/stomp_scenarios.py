"""What a client of STOMP sees in the same way at RabbitMQ's plugin and at Leveret."""

from __future__ import annotations

import pika

from tests.compat.stomp_stage import Scenario, StompStage, given

SCENARIOS: list[Scenario] = []
VERSIONS = ("1.0", "1.1", "1.2")


def scenario(play: Scenario) -> Scenario:
    SCENARIOS.append(play)
    return play


# ---- CONNECT


@scenario
def versions_are_agreed_on(stage: StompStage) -> object:
    asked = (None, "1.0", "1.1", "1.2", "1.0,1.1,1.2", "1.2,1.1", "2.0,1.1")
    return [
        [stage.talker().greet(accept_version=each) for each in asked],
        [stage.talker().greet("STOMP", accept_version=each) for each in VERSIONS],
        [stage.talker().greet(accept_version=each) for each in ("2.0", "nonsense", "")],
    ]


@scenario
def the_server_is_named_first(stage: StompStage) -> object:
    """Clients look for RabbitMQ there, and RabbitMQ's own suite for the order."""
    answer = stage.talker().greet()
    return list(answer.headers), answer["server"].partition("/")[0]


@scenario
def nuls_before_a_frame_are_skipped(stage: StompStage) -> object:
    client = stage.talker()
    client.socket.sendall(b"\0\n\0\r\n")
    greeting = client.greet()
    client.socket.sendall(b"\0\0")
    return greeting, client.ask("SEND", destination=stage.queue())


@scenario
def bodies_of_errors(stage: StompStage) -> object:
    """To the last byte: some of them end in a line break."""
    client = stage.open()
    for _ in range(2):
        client.say("SUBSCRIBE", destination=stage.queue(), id="1")
    wrong: tuple[dict[str, object], ...] = ({"passcode": "wrong"}, {"host": "nowhere"}, {"accept_version": "9.9"})
    return client.read().body, [stage.talker().greet(**each).body for each in wrong]


@scenario
def heart_beats_are_agreed_on(stage: StompStage) -> object:
    """S3-10: of whole seconds."""
    asked = ("0,0", "1000,2000", "5000,0", "0,5000", "60000,30000")
    return [stage.talker().greet(accept_version=version, heart_beat=each) for version in VERSIONS for each in asked]


@scenario
def logins_that_fail(stage: StompStage) -> object:
    wrong: tuple[dict[str, object], ...] = (
        {"passcode": "wrong"},
        {"login": "nobody"},
        {"host": "nowhere"},
        {"host": None},
    )
    return [stage.talker().greet(**each) for each in wrong]


@scenario
def blanks_behind_the_colon_in_1_0(stage: StompStage) -> object:
    login = stage.talker().greet(accept_version="1.0", login=" guest", passcode=" guest", host=" /")
    answers: list[object] = [login]
    for version in VERSIONS:
        client = stage.open(version)
        client.say("SUBSCRIBE", destination=stage.queue(version), id="s")
        client.say("SEND", b"m", destination=stage.queue(version), mine="  two before, one behind ")
        answers.append(client.read())
    return answers


@scenario
def commands_before_connect(stage: StompStage) -> object:
    answers = []
    for command in ("SEND", "SUBSCRIBE", "DISCONNECT", "BEGIN", "ACK"):
        client = stage.talker()
        client.say(command, destination=stage.queue(), id="1", transaction="t")
        answers.append(client.read())
    return answers


@scenario
def commands_that_are_none(stage: StompStage) -> object:
    answers = []
    for command in ("HELLO", "send", "MESSAGE"):
        client = stage.open()
        client.say(command, destination=stage.queue())
        answers.append(client.read())
    return answers


# ---- destinations

WRONG_DESTINATIONS = ("", "/", "//queue/x", "/nothing/x", "/amq/other/x", "x/y", "/reply-queue")
MALFORMED_DESTINATIONS = (
    "/queue",
    "/queue/",
    "/queue/x/y",
    "/topic",
    "/topic/",
    "/topic/x/y",
    "/exchange",
    "/exchange/",
)
MALFORMED_DESTINATIONS += ("/exchange//x", "/exchange/x/y/z", "/amq/queue", "/amq/queue/", "/amq/queue/x/y")
MALFORMED_DESTINATIONS += ("/temp-queue", "/temp-queue/", "/temp-queue/x/y", "/reply-queue/")


@scenario
def destinations_that_are_none(stage: StompStage) -> object:
    """RabbitMQ shows a malformed one without its first part."""
    answers: list[object] = []
    for command in ("SEND", "SUBSCRIBE"):
        for text in WRONG_DESTINATIONS + MALFORMED_DESTINATIONS + ("/temp-queue/x",):
            answer = stage.open().ask(command, destination=text, id="1")
            shown = answer.body.decode().split("\n")[0]
            if text in MALFORMED_DESTINATIONS:
                shown = shown.rpartition("'")[2]
            answers.append((text, answer["message"], shown))
        answers += [stage.open(version).ask(command, id="1") for version in VERSIONS]
    return answers


@scenario
def what_is_not_there(stage: StompStage) -> object:
    nowhere = stage.name("nowhere")
    asked = [f"/exchange/{nowhere}/key", f"/amq/queue/{nowhere}", f"/reply-queue/{nowhere}", "/queue/amq.reserved"]
    answers = [stage.open().ask("SUBSCRIBE", destination=each, id="1") for each in asked]
    return [*answers, stage.open().ask("SEND", destination=asked[0])]


@scenario
def messages_of_every_kind_of_destination(stage: StompStage) -> object:
    stage.channel.queue_declare(stage.name("made"))
    exchanges = {kind: stage.exchange(kind, kind) for kind in ("direct", "fanout", "topic", "headers")}
    asked = [(each, each) for each in (stage.queue(), stage.name("plain"), f"/amq/queue/{stage.name('made')}")]
    asked += [(stage.topic("a.*.c"), stage.topic("a.b.c")), (f"/queue/{stage.name('a')}%2Fb",) * 2]
    asked += [(f"/exchange/{exchanges['direct']}/key",) * 2, (f"/exchange/{exchanges['fanout']}",) * 2]
    asked += [(f"/exchange/{exchanges['topic']}/#", f"/exchange/{exchanges['topic']}/a.b")]
    asked += [(f"/exchange/{exchanges['headers']}",) * 2, (f"/exchange/{exchanges['topic']}/#.x",) * 2]
    answers: list[object] = []
    for pattern, destination in asked:
        client = stage.open()
        client.sure("SUBSCRIBE", destination=pattern, id="s")
        client.say("SEND", b"m", destination=destination)
        answers.append(client.read())
    return answers, stage.count("a/b")


@scenario
def wildcards(stage: StompStage) -> object:
    """S4-40, S4-45."""
    client = stage.open()
    for number, pattern in enumerate(("a.*.c", "a.#", "#.c", "a.b.c", "*.b.*")):
        client.sure("SUBSCRIBE", destination=stage.topic(pattern), id=number)
    for key in ("a.b.c", "a.x", "z.c", "a.b.b.c", "a", "a.b.c"):
        client.say("SEND", key.encode(), destination=stage.topic(key))
    found = client.messages(2 * 5 + 1 + 1 + 2 + 1)
    return sorted((each["subscription"], each.body, each["destination"]) for each in found)


@scenario
def what_queues_are_declared_as(stage: StompStage) -> object:
    flags: tuple[dict[str, object], ...] = (
        {},
        {"durable": "false"},
        {"auto-delete": "true"},
        {"exclusive": "true"},
        {"durable": "false", "exclusive": "false"},
        {"durable": "false", "auto-delete": "false"},
        {"durable": "false", "auto-delete": "false", "exclusive": "false"},
        {"durable": "true", "auto-delete": "true"},
        {"durable": "False", "auto-delete": "False", "exclusive": "False"},
        {"durable": "True", "auto-delete": "True"},
    )
    answers = []
    for command in ("SEND", "SUBSCRIBE"):
        for number, headers in enumerate(flags):
            client, name = stage.open(), f"{command}{number}"
            client.sure(command, destination=stage.queue(name), id="s", **headers)
            answers.append((command, headers, stage.declared(name)))
    return answers


@scenario
def arguments_of_queues(stage: StompStage) -> object:
    arguments: dict[str, object] = {"x-message-ttl": 60_000, "x-expires": 60_000, "x-max-length": 5}
    arguments |= {"x-max-length-bytes": 500, "x-max-priority": 5}
    arguments |= {"x-dead-letter-exchange": "amq.fanout", "x-dead-letter-routing-key": "k"}
    answers = []
    for command in ("SEND", "SUBSCRIBE"):
        stage.open().sure(command, destination=stage.queue(command), id="s", **arguments)
        answers.append((stage.declared(command, arguments), stage.declared(command)))
    return answers


@scenario
def a_queue_is_declared_by_who_names_it_first(stage: StompStage) -> object:
    """And not again by the same connection; another one has to say the same."""
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue("a"), id="a", x_message_ttl=60_000, auto_delete="true")
    client.say("SEND", b"m", destination=stage.queue("a"))
    first = client.read()
    client.sure("SEND", b"m", destination=stage.queue("b"))
    client.say("SUBSCRIBE", destination=stage.queue("b"), id="b", x_message_ttl=60_000)
    return first, client.read().body, stage.open().ask("SEND", destination=stage.queue("a"))["message"]


# ---- messages

PROPERTIES = {"content-type": "text/x", "content-encoding": "utf-8", "correlation-id": "c", "priority": 3}
PROPERTIES |= {"expiration": 60_000, "amqp-message-id": "m", "timestamp": 1234567890, "type": "t", "user-id": "guest"}
PROPERTIES |= {"app-id": "a", "persistent": "true", "cluster-id": "k", "delivery-mode": 2, "mine": "x", "empty": ""}


@scenario
def headers_there_and_back(stage: StompStage) -> object:
    answers: list[object] = []
    for version in VERSIONS:
        client = stage.open(version)
        client.say("SEND", b"m", destination=stage.queue(version), **PROPERTIES)
        client.say("SEND", b"m", destination=stage.queue(version), **PROPERTIES)
        stage.comes_to(2, version)
        answers.append(stage.got(version))
        client.say("SUBSCRIBE", destination=stage.queue(version), id="s")
        answers.append(client.read())
    return answers


@scenario
def properties_of_amqp(stage: StompStage) -> object:
    client = stage.open()
    client.sure("SUBSCRIBE", destination=stage.queue(), id="s")
    headers = {"text": "ä", "int": 5, "long": 1 << 40, "none": None, "bytes": b"\xff", "list": [1], "table": {"a": 1}}
    headers |= {"destination": "evil", "message-id": "evil", "subscription": "evil", "redelivered": "evil"}
    every = pika.BasicProperties("a/b", "gz", headers, 2, 5, "c", "r", "60000", "m", 1234567890, "t", "guest", "a", "k")
    hidden = {"correlation-id": "mine", "priority": "mine", "type": "mine"}
    answers = []
    for properties in (pika.BasicProperties(), every, pika.BasicProperties(reply_to="/queue/x", headers=hidden)):
        stage.publish("q", properties)
        answers.append(client.read())
    return answers


@scenario
def acks_are_named_as_their_version_says(stage: StompStage) -> object:
    answers = []
    for version in VERSIONS:
        for mode in ("auto", "client", "client-individual"):
            client, (message,) = given(stage, 1, version, ack=mode)
            client.leave()
            stage.comes_to(0 if mode == "auto" else 1)
            stage.channel.queue_purge(stage.name())
            answers.append(message)
    return answers


@scenario
def without_an_id_no_subscription_is_named(stage: StompStage) -> object:
    answers = []
    for version in VERSIONS:
        client = stage.open(version)
        client.sure("SUBSCRIBE", destination=stage.queue(version))
        client.say("SEND", b"m", destination=stage.queue(version))
        answers.append((client.read(), client.ask("UNSUBSCRIBE", destination=stage.queue(version))))
    return answers


@scenario
def escapes(stage: StompStage) -> object:
    answers = []
    for version in ("1.1", "1.2"):
        client = stage.open(version)
        client.sure("SUBSCRIBE", destination=stage.queue(version), id="s")
        client.say(
            "SEND", b"m", destination=stage.queue(version), **{r"na\cme": r"a\cb\nc\\d", "plain": "x:y", "t": "\t"}
        )
        answers.append(client.read())
        client.say("SEND", b"m", destination=stage.queue("other" + version), odd=r"a\rb")
        stage.comes_to(1, "other" + version)
        answers.append(stage.got("other" + version))
    return answers


@scenario
def lines_bodies_and_repeated_headers(stage: StompStage) -> object:
    answers = []
    for version in VERSIONS:
        client = stage.open(version)
        client.sure("SUBSCRIBE", destination=stage.queue(version), id="s")
        head = f"\n\r\nSEND\r\ndestination:{stage.queue(version)}\r\nmine:first\r\nmine:second\r\n\r\n"
        client.socket.sendall(head.encode() + b"m\0\r\n\n")
        answers.append(client.read())
        client.say("SEND", bytes(range(256)), destination=stage.queue(version), **{"content-length": 256})
        answers.append(client.read().body)
    return answers


@scenario
def answers_through_a_temporary_queue(stage: StompStage) -> object:
    client, server = stage.open(), stage.open()
    server.sure("SUBSCRIBE", destination=stage.queue(), id="serve")
    asked = []
    for name in ("foo", "foo", "bar"):
        client.say("SEND", b"question", destination=stage.queue(), reply_to=f"/temp-queue/{name}")
        asked.append(server.read())
    server.say("SEND", b"answer", destination=asked[0]["reply-to"])
    own = stage.channel.queue_declare("", exclusive=True).method.queue
    stage.publish("q", pika.BasicProperties(reply_to=own))
    server.sure("SEND", b"to AMQP", destination=server.read()["reply-to"])
    names = [each["reply-to"] for each in asked]
    return asked, client.read(), names[0] == names[1] != names[2], stage.channel.basic_get(own, True)[2]
