"""May this user do that? The answer is the one that AMQP gives to whoever tries, and names the rule that decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pika
import pika.exceptions
import pytest

from leveret import Broker
from tests.support.management_api import ManagementApi, as_guest, as_user

Channel = Any  # of pika, which has no types
Deed = Callable[[Channel], object]


pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def module_broker(module_broker: Broker) -> Broker:
    as_user(module_broker, "anna", "management")
    vhost = module_broker.vhost()
    for name in ("mine", "yours"):
        vhost.declare_exchange(f"{name}.topic", "topic")
        vhost.declare_exchange(f"{name}.internal", "fanout", internal=True)
        vhost.declare_queue(f"{name}.q")
    return module_broker


@pytest.fixture
def admin(broker: Broker) -> ManagementApi:
    broker.call(lambda: broker.node.broker.permissions.clear_user("anna"))
    return as_guest(broker)


def asked(api: ManagementApi, action: str, name: str, **more: str) -> dict[str, Any]:
    question = {"user": "anna", "vhost": "/", "action": action, "name": name, **more}
    status, answer = api.get("permission-check", **question)
    assert status == 200, answer
    found: dict[str, Any] = answer
    return found


def tried(broker: Broker, deed: Deed) -> bool:
    """Whether AMQP lets anna do it. What else may be wrong with it comes after the permissions."""
    parameters = pika.URLParameters(broker.amqp_url.replace("guest:guest", "anna:secret"))
    connection = pika.BlockingConnection(parameters)
    try:
        channel = connection.channel()
        channel.confirm_delivery()
        deed(channel)
    except pika.exceptions.ChannelClosedByBroker as refusal:
        return bool(refusal.reply_code != 403)
    finally:
        connection.close()
    return True


NAMES = ("mine.q", "yours.q", "mine.new", "amq.mine")
EXCHANGES = ("mine.topic", "yours.topic", "mine.internal", "amq.mine", "amq.default", "amq.topic")


def wire(exchange: str) -> str:
    return "" if exchange == "amq.default" else exchange


def doing(method: str, *given: object, **named: object) -> Deed:
    return lambda channel: getattr(channel, method)(*given, **named)


Asked = tuple[str, str, dict[str, str], Deed]


def deeds_of_queues() -> Iterator[Asked]:
    for name in NAMES:
        yield "declare queue", name, {}, doing("queue_declare", name, auto_delete=True)
        yield "look at queue", name, {}, doing("queue_declare", name, passive=True)
        yield "purge", name, {}, doing("queue_purge", name)
        yield "get", name, {}, doing("basic_get", name)
        yield "consume", name, {}, doing("basic_consume", name, print)
        yield "delete queue", f"{name}.x", {}, doing("queue_delete", f"{name}.x")
        for other in ("mine.dead", "yours.dead", "amq.default"):
            dying = doing("queue_declare", f"{name}.dies", arguments={"x-dead-letter-exchange": wire(other)})
            yield "declare queue", f"{name}.dies", {"exchange": other}, dying
        for source in EXCHANGES:
            for key in ("mine.key", "yours.key"):
                more = {"exchange": source, "routing_key": key}
                yield "bind queue", name, more, doing("queue_bind", name, wire(source), key)
                yield "unbind queue", name, more, doing("queue_unbind", name, wire(source), key)


def deeds_of_exchanges() -> Iterator[Asked]:
    for name in EXCHANGES:
        yield "look at exchange", name, {}, doing("exchange_declare", wire(name), passive=True)
        yield "declare exchange", f"{name}.n", {}, doing("exchange_declare", f"{name}.n")
        yield "delete exchange", f"{name}.x", {}, doing("exchange_delete", f"{name}.x")
        for key in ("mine.key", "yours.key"):
            yield "publish", name, {"routing_key": key}, doing("basic_publish", wire(name), key, b"")
        for other in ("mine.dead", "yours.dead"):
            leading = doing("exchange_declare", f"{name}.alt", arguments={"alternate-exchange": other})
            yield "declare exchange", f"{name}.alt", {"exchange": other}, leading
        for source in ("mine.topic", "yours.topic", "amq.default"):
            more = {"exchange": source, "routing_key": "mine.key"}
            yield "bind exchange", name, more, doing("exchange_bind", wire(name), wire(source), "mine.key")
            yield "unbind exchange", name, more, doing("exchange_unbind", wire(name), wire(source), "mine.key")


RULES = (("^mine", "", ""), ("", "^mine", "^mine"), ("mine", "mine|default", "mine|yours"), (".*", ".*", ".*"))


@pytest.mark.parametrize("rule", RULES, ids=" ".join)
@pytest.mark.feature("S4-72")
def test_the_answer_is_the_one_that_amqp_gives(
    broker: Broker, admin: ManagementApi, rule: tuple[str, str, str]
) -> None:
    """Every operation, with names inside and outside of what the user may use."""
    permissions = broker.node.broker.permissions
    broker.call(lambda: permissions.set("anna", "/", *rule))
    broker.call(lambda: permissions.set_topic("anna", "/", "mine.topic", "^mine", "^mine"))
    differ = []
    for action, name, more, deed in (*deeds_of_queues(), *deeds_of_exchanges()):
        told, real = asked(admin, action, name, **more)["allowed"], tried(broker, deed)
        if told != real:
            differ.append((action, name, more, f"told {told}, but AMQP says {real}"))
    assert differ == []


@pytest.mark.feature("S4-72")
def test_the_rule_that_decides_is_named_with_its_remedy(broker: Broker, admin: ManagementApi) -> None:
    permissions = broker.node.broker.permissions
    answer = asked(admin, "consume", "mine.q")
    assert (answer["allowed"], answer["decided_by"]["check"]) == (False, "enter")
    assert answer["reason"] == "user 'anna' may not consume: 'mine.q' in vhost '/': it has no permissions there"
    assert answer["remedy"] == "give user 'anna' permissions in vhost '/'"

    broker.call(lambda: permissions.set("anna", "/", "", "^mine", "^yours"))
    answer = asked(admin, "bind queue", "mine.q", exchange="mine.topic", routing_key="a")
    assert [(check["kind"], check["what"], check["pattern"], check["passed"]) for check in answer["checks"]] == [
        ("enter", "vhost", None, True),
        ("write", "queue", "^mine", True),
        ("read", "exchange", "^yours", False),
    ]
    assert answer["decided_by"] == answer["checks"][2]
    assert answer["reason"].endswith("read '^yours' does not match 'mine.topic'")
    assert answer["remedy"] == "change 'read' of user 'anna' in vhost '/' so that it matches 'mine.topic'"

    broker.call(lambda: permissions.set_topic("anna", "/", "mine.topic", "^{username}[.]", ""))
    assert asked(admin, "publish", "mine.topic", routing_key="anna.1")["allowed"]
    refusal = asked(admin, "publish", "mine.topic", routing_key="bert.1")
    assert refusal["decided_by"]["check"] == "topic permission"
    assert refusal["reason"].endswith("topic write '^{username}[.]' does not match key 'bert.1'")


@pytest.mark.feature("S4-72")
def test_a_name_alone_can_be_asked_about(broker: Broker, admin: ManagementApi) -> None:
    permissions = broker.node.broker.permissions
    broker.call(lambda: permissions.set("anna", "/", "^c", "^mine", "default"))
    broker.call(lambda: permissions.set_topic("anna", "/", "mine.topic", "^mine", ""))
    assert asked(admin, "configure", "c1")["allowed"]
    assert asked(admin, "read", "amq.default")["allowed"]
    assert not asked(admin, "read", "mine.q")["allowed"]
    assert asked(admin, "write", "mine.topic")["allowed"]
    assert not asked(admin, "write", "mine.topic", routing_key="")["allowed"]


@pytest.mark.feature("S4-72")
def test_users_ask_about_themselves_and_administrators_about_all(broker: Broker, admin: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.permissions.set("anna", "/", "", "", ".*"))
    anna = ManagementApi(broker.http_url, "anna", "secret")
    question = {"vhost": "/", "action": "get", "name": "mine.q"}
    status, answer = anna.get("permission-check", **question)
    assert (status, answer["user"], answer["allowed"]) == (200, "anna", True)
    status, refusal = anna.get("permission-check", user="guest", **question)
    assert (status, refusal["reason"]) == (403, "user 'anna' needs the tag 'administrator' for this")
    stranger = as_user(broker, "stranger", vhosts=("/",))
    assert stranger.get("permission-check", **question)[0] == 401


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        ({"user": "nobody"}, 404, "user 'nobody' not found"),
        ({"vhost": "nowhere"}, 404, "vhost 'nowhere' not found"),
        ({"vhost": None}, 400, "'vhost' is missing"),
        ({"action": None}, 400, "'action' is missing"),
        ({"action": "eat"}, 400, "'action' must be one of declare queue, "),
        ({"name": ""}, 400, "'name' is missing: pass the name of the queue"),
        ({"exchange": ""}, 400, "'exchange' is missing: pass the name of the source"),
        ({"name": "n" * 256}, 400, "'name' is longer than 255 bytes"),
        ({"name": "\x00"}, 400, "'name' must be a string"),
        ({"routing_key": "k" * 256}, 400, "'routing_key' is longer than 255 bytes"),
    ],
)
@pytest.mark.feature("S4-72")
def test_a_wrong_question_is_told_what_is_wrong(
    admin: ManagementApi, change: dict[str, str | None], status: int, words: str
) -> None:
    question = {"user": "anna", "vhost": "/", "action": "bind queue", "name": "q", "exchange": "e", **change}
    given = {name: value for name, value in question.items() if value is not None}
    answered, told = admin.get("permission-check", **given)
    assert (answered, told["reason"][: len(words)]) == (status, words)


@pytest.mark.feature("S4-72")
def test_the_actions_are_listed_with_what_they_take(admin: ManagementApi) -> None:
    status, actions = admin.get("permission-check/actions")
    assert status == 200
    by_name = {action["name"]: action for action in actions}
    assert by_name["bind queue"] == {
        "name": "bind queue",
        "what": "queue",
        "exchange": "source",
        "needs_exchange": True,
        "takes_routing_key": True,
        "takes_arguments": False,
    }
    assert by_name["declare exchange"]["takes_arguments"]
    assert by_name["purge"]["exchange"] == ""
