"""Who may do what: every operation with every set of permissions, topics, virtual hosts, exclusive queues.

The matrix is RabbitMQ's (https://www.rabbitmq.com/docs/access-control), but for passive declares: RabbitMQ lets anybody
ask, here some permission on the thing is needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapPermission, BootstrapUser, BootstrapVhost
from leveret.config import Settings
from leveret.wire.frames import decode_method
from leveret.wire.methods import (
    BasicConsume,
    BasicGet,
    BasicPublish,
    ChannelClose,
    ChannelCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from tests.support.raw_client import RawClient, plain, publish_bytes

SETTINGS = Settings(
    amqp_port=0,
    http_port=None,
    stomp_port=None,
    bootstrap=Bootstrap(
        vhosts=(BootstrapVhost("other"),),
        users=(BootstrapUser("ann", "ann"),),
        permissions=(BootstrapPermission("guest", "other", ".*", ".*", ".*"), BootstrapPermission("ann", "/")),
    ),
)
KINDS = ("configure", "write", "read")


pytestmark = pytest.mark.broker(SETTINGS)


@pytest.fixture(scope="module")
def module_broker(module_broker: leveret.Broker) -> leveret.Broker:
    vhost = module_broker.vhost()
    vhost.declare_queue("q")
    vhost.declare_exchange("x", "direct")
    vhost.declare_exchange("y", "direct")
    vhost.declare_exchange("t", "topic")
    vhost.publish("", "q", b"one message")
    return module_broker


@pytest.fixture
def ann(broker: leveret.Broker) -> Iterator[RawClient]:
    with RawClient(broker.amqp_url) as client:
        client.handshake(response=plain("ann", "ann"))
        client.open_channel(1)
        yield client


def grant(broker: leveret.Broker, configure: str = "", write: str = "", read: str = "") -> None:
    broker.call(lambda: broker.node.broker.permissions.set("ann", "/", configure, write, read))


def outcome(client: RawClient, said: bytes | Method) -> int:
    """0 if it was allowed (whatever else came of it), else the code of the refusal. The channel is open afterwards."""
    client.send(said) if isinstance(said, Method) else client.send_bytes(said)
    client.send(ChannelClose(200, "done"))
    code = 0
    while True:
        found = client.next_frame()
        method = decode_method(found.payload) if found.kind == 1 else None
        if isinstance(method, ChannelClose):
            code = method.reply_code
            assert code != 403 or "refused for user 'ann'" in method.reply_text
            assert code != 403 or (method.class_id, method.method_id) != (0, 0)
        if isinstance(method, ChannelCloseOk):
            break
    if code:
        client.send(ChannelCloseOk())
    client.open_channel(1)
    return code


# operation: what is said, and which permissions it takes, all of them, as (kind, resource)
OPERATIONS: dict[str, tuple[Method | bytes, set[tuple[str, str]]]] = {
    "queue.declare": (QueueDeclare("q"), {("configure", "q")}),
    "queue.declare, to a dead letter exchange": (
        QueueDeclare("d", auto_delete=True, arguments={"x-dead-letter-exchange": "x"}),
        {("configure", "d"), ("read", "d"), ("write", "x")},
    ),
    "queue.delete": (QueueDelete("d"), {("configure", "d")}),
    "queue.purge": (QueuePurge("q"), {("read", "q")}),
    "queue.bind": (QueueBind("q", "x", "k"), {("write", "q"), ("read", "x")}),
    "queue.unbind": (QueueUnbind("q", "x", "k"), {("write", "q"), ("read", "x")}),
    "exchange.declare": (ExchangeDeclare("x"), {("configure", "x")}),
    "exchange.declare, with an alternate": (
        ExchangeDeclare("z", arguments={"alternate-exchange": "x"}),
        {("configure", "z"), ("read", "z"), ("write", "x")},
    ),
    "exchange.delete": (ExchangeDelete("z"), {("configure", "z")}),
    "exchange.bind": (ExchangeBind("y", "x", "k"), {("write", "y"), ("read", "x")}),
    "exchange.unbind": (ExchangeUnbind("y", "x", "k"), {("write", "y"), ("read", "x")}),
    "basic.publish": (publish_bytes(BasicPublish("x", "k"), b"hello"), {("write", "x")}),
    "basic.publish, default exchange": (publish_bytes(BasicPublish("", "q"), b"hello"), {("write", "amq.default")}),
    "basic.consume": (BasicConsume("q"), {("read", "q")}),
    "basic.get": (BasicGet("q"), {("read", "q")}),
    "delete of what is not there": (QueueDelete("nothing"), {("configure", "nothing")}),
    "get of what is not there": (BasicGet("nothing"), {("read", "nothing")}),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.feature("S4-72", "S4-81")
def test_each_operation_takes_its_permissions_and_no_others(
    operation: str, broker: leveret.Broker, ann: RawClient
) -> None:
    """Every combination of the kinds on the resources that matter; only the right ones open the door."""
    said, needed = OPERATIONS[operation]
    resources = sorted({resource for _, resource in needed})
    places = [(kind, resource) for kind in KINDS for resource in resources]
    for chosen in product([False, True], repeat=len(places)):
        granted = {place for place, given in zip(places, chosen, strict=True) if given}
        patterns = {kind: _pattern([name for what, name in granted if what == kind]) for kind in KINDS}
        grant(broker, **patterns)
        refused = outcome(ann, said) == 403
        assert refused is not (needed <= granted), (operation, granted)


def _pattern(names: list[str]) -> str:
    return "|".join(f"^{name.replace('.', chr(92) + '.')}$" for name in names)


@pytest.mark.parametrize("asked", [QueueDeclare("q", passive=True), ExchangeDeclare("x", passive=True)])
def test_asking_takes_some_permission_on_the_thing(asked: Method, broker: leveret.Broker, ann: RawClient) -> None:
    name = "q" if isinstance(asked, QueueDeclare) else "x"
    grant(broker, "^other$", "^other$", "^other$")
    assert outcome(ann, asked) == 403
    for kind in KINDS:
        grant(broker, **{kind: f"^{name}$"})
        assert outcome(ann, asked) == 0


def test_without_permission_nobody_learns_what_exists(broker: leveret.Broker, ann: RawClient) -> None:
    grant(broker)
    for method in (QueueDeclare, BasicGet, BasicConsume, QueuePurge, QueueDelete):
        options = {"passive": True} if method is QueueDeclare else {}
        there, missing = (outcome(ann, method(name, **options)) for name in ("q", "nothing"))  # type: ignore[operator]
        assert (there, missing) == (403, 403)


def test_server_named_queues_take_configure_on_their_names(broker: leveret.Broker, ann: RawClient) -> None:
    grant(broker, configure="^mine$")
    assert outcome(ann, QueueDeclare("")) == 403
    grant(broker, configure=r"^amq\.gen-.+")
    assert outcome(ann, QueueDeclare("", exclusive=True)) == 0


def test_patterns_match_anywhere_unless_anchored_and_the_empty_one_nothing(
    broker: leveret.Broker, ann: RawClient
) -> None:
    grant(broker, read="q")
    assert outcome(ann, BasicGet("a q or so")) == 404
    grant(broker, read="")
    assert outcome(ann, BasicGet("q")) == 403
    grant(broker, read="^$")
    assert outcome(ann, BasicGet("q")) == 403


def test_a_permission_taken_away_ends_publishing_on_an_open_channel(broker: leveret.Broker, ann: RawClient) -> None:
    """Routes are remembered per publish frame; a change of permissions must end them."""
    grant(broker, ".*", ".*", ".*")
    ann.publish("", "q", b"allowed")
    ann.call(QueueDeclare("q"), QueueDeclareOk)
    grant(broker, ".*", "", ".*")
    ann.publish("", "q", b"refused")
    ann.expect_channel_close(403)


@pytest.mark.parametrize(
    ("write", "read", "publish", "bind"),
    [("^a\\.", "^b\\.", 0, 403), ("^b\\.", "^a\\.", 403, 0), ("", "", 403, 403), (".*", ".*", 0, 0)],
)
def test_topic_permissions_narrow_keys_of_topic_exchanges(
    write: str, read: str, publish: int, bind: int, broker: leveret.Broker, ann: RawClient
) -> None:
    """Publishing writes a key, binding reads one; other exchanges and exchanges without a rule are not concerned."""
    grant(broker, ".*", ".*", ".*")
    permissions = broker.node.broker.permissions
    broker.call(lambda: permissions.set_topic("ann", "/", "t", write, read))
    try:
        said = publish_bytes(BasicPublish("t", "a.b"), b"hello")
        assert outcome(ann, said) == publish
        assert outcome(ann, QueueBind("q", "t", "a.b")) == bind
        assert outcome(ann, QueueUnbind("q", "t", "a.b")) == bind
        assert outcome(ann, publish_bytes(BasicPublish("amq.topic", "a.b"), b"")) == 0
        assert outcome(ann, publish_bytes(BasicPublish("x", "a.b"), b"")) == 0
    finally:
        broker.call(lambda: permissions.clear_topic("ann", "/"))
    assert outcome(ann, said) == 0


@pytest.mark.feature("S4-02")
def test_virtual_hosts_are_apart(broker: leveret.Broker) -> None:
    """The same names in two vhosts are two things, and permissions in one say nothing about the other."""
    with (
        RawClient.open(broker.amqp_url, virtual_host="/") as here,
        RawClient.open(broker.amqp_url, virtual_host="other") as there,
    ):
        for client in (here, there):
            client.call(QueueDeclare("twin", exclusive=True), QueueDeclareOk)
            client.call(QueueBind("twin", "amq.fanout", ""), QueueBindOk)
        here.publish("amq.fanout", "", b"only here")
        assert here.call(QueueDeclare("twin", passive=True), QueueDeclareOk).message_count == 1
        assert there.call(QueueDeclare("twin", passive=True), QueueDeclareOk).message_count == 0
        there.send(QueueDeclare("q", passive=True))
        there.expect_channel_close(404)


OF_ANOTHER = [
    QueueDeclare("own", exclusive=True),
    QueueDeclare("own", passive=True),
    QueueDelete("own"),
    QueuePurge("own"),
    QueueBind("own", "amq.direct", "k"),
    QueueUnbind("own", "amq.direct", "k"),
    BasicConsume("own"),
    BasicGet("own"),
]


@pytest.mark.parametrize("said", OF_ANOTHER, ids=lambda said: said.NAME)
@pytest.mark.feature("S4-73")
def test_an_exclusive_queue_is_locked_to_others_for_everything_but_publishing(
    said: Method, broker: leveret.Broker, ann: RawClient
) -> None:
    grant(broker, ".*", ".*", ".*")
    with RawClient.open(broker.amqp_url) as owner:
        owner.call(QueueDeclare("own", exclusive=True), QueueDeclareOk)
        assert outcome(ann, said) == 405
        ann.publish("", "own", b"may come from anybody")
        ann.is_alive()
        assert owner.call(QueueDeclare("own", passive=True), QueueDeclareOk).message_count == 1
