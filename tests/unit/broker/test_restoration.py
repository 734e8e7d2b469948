"""Durable things through rows and back: what is declared survives a stop, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret.auth.passwords import hash_password
from leveret.broker.broker import Broker
from leveret.broker.restoration import restore_definitions
from leveret.broker.vhost import Vhost
from leveret.clock import FrozenClock
from leveret.routing.bindings import Binding, Destination
from leveret.store.definitions import (
    BindingRow,
    Definitions,
    ExchangeRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from leveret.store.definitions_db import DefinitionsDb
from leveret.store.memory_log import MemoryLog
from leveret.wire.fields import encode_table
from tests.support.receipt_log import ReceiptLog

NESTED = {
    "x-max-priority": 3,
    "x-list": [1, "two", {"three": 3.5}, None, True],
    "x-table": {"deep": {"deeper": b"\x00\xff"}, "negative": -1, "large": 1 << 40},
}


class Life:
    """A broker whose changes go to a database; ``next`` is one that begins with what is there."""

    def __init__(self, rows: DefinitionsDb, *, user: str = "guest", password: str = "secret") -> None:
        self.log = ReceiptLog()
        self.rows = rows
        self.broker = Broker(node_name="n", clock=FrozenClock(), log=self.log, memory_high_watermark=1 << 30)
        with self.broker.unrecorded():
            restore_definitions(self.broker, rows.load(), user, password)
        assert self.log.changes == [], "what is on disk already is not written again"

    @property
    def vhost(self) -> Vhost:
        return self.broker.add_vhost("/")

    def definitions(self) -> Definitions:
        changes, self.log.changes = self.log.changes, []
        self.rows.apply(changes)
        return self.rows.load()

    def next(self, **more: str) -> Life:
        self.definitions()
        return Life(self.rows, **more)


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    rows = DefinitionsDb(tmp_path / "meta.db", synced=False)
    yield Life(rows)
    rows.close()


def bound(source: str, queue: str, key: str = "", arguments: dict[str, object] | None = None) -> Binding:
    return Binding(source, Destination("queue", queue), key, arguments or {})


def joined(source: str, exchange: str, key: str = "") -> Binding:
    return Binding(source, Destination("exchange", exchange), key, {})


# ---- round trips


@pytest.mark.feature("S4-15")
def test_queues_come_back_as_they_were(life: Life) -> None:
    before = life.vhost.declare_queue("q", durable=True, auto_delete=True, arguments=NESTED)
    after = life.next().vhost.queue("q")
    assert (after.id, after.durable, after.auto_delete, after.owner) == (before.id, True, True, None)
    assert after.arguments == NESTED
    assert after.options == before.options
    assert after.options.max_priority == 3
    assert len(after.lanes) == 4
    assert after.stored


@pytest.mark.feature("S4-15")
def test_exchanges_come_back_as_they_were(life: Life) -> None:
    for kind in ("direct", "fanout", "topic", "headers"):
        life.vhost.declare_exchange(kind, kind, durable=True, arguments={"alternate-exchange": "amq.fanout", **NESTED})
    life.vhost.declare_exchange("inner", "fanout", durable=True, internal=True, auto_delete=True)
    vhost = life.next().vhost
    for kind in ("direct", "fanout", "topic", "headers"):
        exchange = vhost.exchange(kind)
        assert (exchange.kind, exchange.durable, exchange.auto_delete, exchange.internal) == (kind, True, False, False)
        assert exchange.alternate == "amq.fanout"
        assert exchange.arguments["x-table"] == NESTED["x-table"]
    inner = vhost.exchange("inner")
    assert (inner.internal, inner.auto_delete) == (True, True)


@pytest.mark.feature("S4-15")
def test_bindings_come_back_and_route(life: Life) -> None:
    vhost = life.vhost
    vhost.declare_queue("q", durable=True)
    vhost.declare_queue("h", durable=True)
    vhost.declare_exchange("x", "topic", durable=True)
    vhost.declare_exchange("y", "headers", durable=True)
    made = [
        bound("x", "q", "a.#"),
        bound("x", "q", "b.*"),
        bound("amq.direct", "q", "key"),
        bound("y", "h", "", {"x-match": "any", "n": 1, "list": [1, {"deep": "x"}]}),
        joined("x", "y", "h"),
        joined("amq.fanout", "x", ""),
    ]
    for binding in made:
        assert vhost.bind(binding)
    vhost = life.next().vhost
    assert all(binding in vhost.bindings for binding in made)
    assert all(not vhost.bind(binding) for binding in made), "each is there already"
    assert vhost.route(vhost.exchange("x"), ["a.b.c"], {}).queues == ["q"]
    assert vhost.route(vhost.exchange("x"), ["h"], {"n": 1}).queues == ["h"]
    assert vhost.route(vhost.exchange("amq.direct"), ["key"], {}).queues == ["q"]


@pytest.mark.feature("S4-15", "S4-73")
def test_what_is_not_durable_does_not_come_back(life: Life) -> None:
    """Neither an exclusive queue, durable or not; nor a binding of which one end does not last."""
    vhost, owner = life.vhost, object()
    vhost.declare_queue("d", durable=True)
    vhost.declare_queue("t")
    vhost.declare_queue("own", durable=True, exclusive=True, owner=owner)
    vhost.declare_exchange("x", "topic", durable=True)
    vhost.declare_exchange("z", "topic")
    for binding in (
        bound("x", "t"),
        bound("x", "own"),
        bound("z", "d"),
        bound("z", "t"),
        joined("z", "x"),
        joined("x", "z"),
    ):
        vhost.bind(binding)
    found = life.definitions()
    assert found.bindings == []
    assert [row.name for row in found.queues] == ["d"]
    assert [row.name for row in found.exchanges] == ["x"]
    vhost = life.next().vhost
    assert vhost.queues.keys() == {"d"}
    assert "z" not in vhost.exchanges


@pytest.mark.feature("S4-14")
def test_exchanges_that_are_always_there_are_no_rows(life: Life) -> None:
    """The default exchange and amq.*; but bindings from amq.* last."""
    life.vhost.declare_queue("q", durable=True)
    life.vhost.bind(bound("amq.topic", "q", "k"))
    found = life.definitions()
    assert found.exchanges == []
    assert [(row.source, row.destination, row.key) for row in found.bindings] == [("amq.topic", "q", "k")]
    vhost = life.next().vhost
    predeclared = {"", "amq.direct", "amq.fanout", "amq.topic", "amq.headers", "amq.match", "amq.rabbitmq.trace"}
    assert vhost.exchanges.keys() == predeclared
    assert vhost.route(vhost.exchange(""), ["q"], {}).queues == ["q"]
    assert vhost.route(vhost.exchange("amq.topic"), ["k"], {}).queues == ["q"]


def test_vhosts_come_back_with_their_limits(life: Life) -> None:
    life.broker.add_vhost("shop", max_queues=2, max_connections=7)
    life.broker.add_vhost("free")
    life.broker.add_vhost("later")
    life.broker.limit_vhost("later", max_queues=9, max_connections=None)
    for name in ("a", "b"):
        life.broker.vhost("shop").declare_queue(name, durable=True)
    broker = life.next().broker
    limits = {name: (vhost.max_queues, vhost.max_connections) for name, vhost in broker.vhosts.items()}
    assert limits == {"shop": (2, 7), "free": (None, None), "later": (9, None)}
    assert broker.vhost("shop").queues.keys() == {"a", "b"}


def test_users_come_back_with_tags_limits_and_hash(life: Life) -> None:
    hashed = hash_password("pass")
    life.broker.users.add("ann", password_hash=hashed, tags=("monitoring", "management"), max_connections=3)
    life.broker.users.add("bob", max_channels=5)
    life.broker.users.add("cat", password_hash=hashed)
    life.broker.users.set_tags("cat", ("administrator",))
    users = life.next().broker.users
    ann, bob, cat = users.get("ann"), users.get("bob"), users.get("cat")
    assert ann is not None
    assert bob is not None
    assert cat is not None
    assert (ann.password_hash, set(ann.tags), ann.max_connections) == (hashed, {"management", "monitoring"}, 3)
    assert (bob.password_hash, bob.pending_password, bob.tags, bob.max_channels) == (None, None, (), 5)
    assert set(cat.tags) == {"administrator"}
    assert users.authenticate("ann", "pass", 0.0) is ann
    assert users.authenticate("bob", "", 0.0) is None


def test_the_default_users_password_is_no_row_until_its_first_use(life: Life) -> None:
    """It is in the configuration: what stands there counts until the first login has made a hash of it."""
    life.broker.users.add("guest", password="first", tags=("administrator",))
    (row,) = life.definitions().users
    assert (row.password_hash, row.is_pending) == (None, True)
    again = life.next(password="second")
    assert again.broker.users.authenticate("guest", "first", 0.0) is None
    user = again.broker.users.authenticate("guest", "second", 0.0)
    assert user is not None
    again.broker.users.note_login(user)
    (row,) = again.definitions().users
    assert (row.password_hash, row.is_pending) == (user.password_hash, False)
    last = again.next(password="third")
    assert last.broker.users.authenticate("guest", "second", 0.0) is not None
    assert last.broker.users.authenticate("guest", "third", 0.0) is None


def test_a_pending_password_of_somebody_else_is_not_taken_from_the_default_user(life: Life) -> None:
    life.broker.users.add("ann", password="hers")
    again = life.next(user="guest", password="secret")
    ann = again.broker.users.get("ann")
    assert ann is not None
    assert (ann.password_hash, ann.pending_password) == (None, None)
    assert again.broker.users.authenticate("ann", "secret", 0.0) is None


@pytest.mark.feature("S4-72")
def test_permissions_come_back(life: Life) -> None:
    for vhost in ("/", "shop"):
        life.broker.add_vhost(vhost)
    permissions = life.broker.permissions
    permissions.set("ann", "/", "^q", ".*", "")
    permissions.set("ann", "shop", "", "", "")
    permissions.set("ann", "shop", "a", "b", "c")
    permissions.set("bob", "/", ".*", ".*", ".*")
    permissions.clear("bob", "/")
    permissions.set_topic("ann", "/", "amq.topic", "^w", "^r")
    permissions.set_topic("ann", "/", "x", "^w", "^r")
    permissions.clear_topic("ann", "/", "x")
    before = permissions.list(), permissions.list_topic()
    after = life.next().broker.permissions
    assert (after.list(), after.list_topic()) == before
    assert after.permits("ann", "/", "configure", "queue")
    assert not after.permits("ann", "/", "read", "queue")
    assert not after.permits_topic("ann", "/", "amq.topic", "write", "other")


# ---- deletion


def test_what_was_deleted_does_not_come_back(life: Life) -> None:
    vhost = life.vhost
    for name in ("other", "q"):
        vhost.declare_queue(name, durable=True)
        vhost.bind(bound("amq.fanout", name))
        vhost.declare_exchange(f"x-{name}", "fanout", durable=True)
        vhost.bind(bound(f"x-{name}", "other", "", {"n": 1}))
        vhost.bind(joined("amq.topic", f"x-{name}", "k"))
    life.broker.users.add("ann", password="p")
    life = life.next()
    vhost = life.vhost
    vhost.delete_queue("q")
    vhost.delete_exchange("x-q")
    assert vhost.unbind(bound("x-other", "other", "", {"n": 1}))
    life.broker.users.delete("ann")
    found = life.definitions()
    assert [row.name for row in found.queues] == ["other"]
    assert [row.name for row in found.exchanges] == ["x-other"]
    assert [(row.source, row.destination) for row in found.bindings] == [
        ("amq.fanout", "other"),
        ("amq.topic", "x-other"),
    ]
    assert found.users == []
    assert life.next().vhost.queues.keys() == {"other"}


def test_an_exchange_that_lived_for_its_binding_goes_with_it(life: Life) -> None:
    life.vhost.declare_exchange("auto", "fanout", durable=True, auto_delete=True)
    life.vhost.declare_queue("q", durable=True)
    life.vhost.bind(bound("auto", "q"))
    life = life.next()
    life.vhost.delete_queue("q")
    assert life.definitions()[4:7] == ([], [], [])


@pytest.mark.feature("S4-71")
def test_a_deleted_vhost_takes_its_rows_along(life: Life) -> None:
    shop = life.broker.add_vhost("shop")
    life.broker.users.add("ann")
    life.broker.permissions.set("ann", "shop", "", "", "")
    life.broker.permissions.set_topic("ann", "shop", "x", "", "")
    shop.declare_queue("q", durable=True)
    shop.declare_exchange("x", durable=True)
    shop.bind(bound("x", "q"))
    life = life.next()
    life.broker.delete_vhost("shop")
    found = life.definitions()
    assert (found.vhosts, found.permissions, found.topic_permissions) == ([], [], [])
    assert (found.exchanges, found.queues, found.bindings) == ([], [], [])
    assert [row.name for row in found.users] == ["ann"]


@pytest.mark.feature("S4-30")
def test_a_queue_that_is_declared_again_is_another_one(life: Life) -> None:
    """Ids are never used twice, or old messages would be taken for new ones."""
    ids = []
    for _ in range(3):
        ids.append(life.vhost.declare_queue("q", durable=True).id)
        life = life.next()
        life.vhost.delete_queue("q")
        life = life.next()
    ids.append(life.vhost.declare_queue("q", durable=True).id)
    assert len(set(ids)) == 4
    assert ids == sorted(ids)


def test_ids_go_on_behind_the_highest_that_the_journal_names(life: Life) -> None:
    broker = Broker(node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
    rows = Definitions([VhostRow("/", None, None)], [], [], [], [], [], [], [], highest_queue=41)
    restore_definitions(broker, rows, "guest", "guest")
    assert broker.vhost("/").declare_queue("q").id == 42


# ---- rows that cannot be used

EMPTY = encode_table({})
GOOD = Definitions(
    vhosts=[VhostRow("/", None, None)],
    users=[UserRow("ann", None, False, "", None, None)],
    permissions=[PermissionRow("ann", "/", ".*", ".*", ".*")],
    topic_permissions=[TopicPermissionRow("ann", "/", "x", ".*", ".*")],
    exchanges=[ExchangeRow("/", "x", "topic", False, False, EMPTY)],
    queues=[QueueRow(1, "/", "q", False, EMPTY)],
    bindings=[BindingRow("/", "x", "queue", "q", "k", EMPTY)],
    parameters=[],
    highest_queue=1,
)
BAD: dict[str, list[object]] = {
    "users": [UserRow("", None, False, "", None, None)],
    "permissions": [PermissionRow("ann", "bad", "(", ".*", ".*")],
    "topic_permissions": [TopicPermissionRow("ann", "bad", "x", "(", ".*")],
    "exchanges": [
        ExchangeRow("/", "bad", "x-of-a-newer-version", False, False, EMPTY),
        ExchangeRow("nowhere", "bad", "topic", False, False, EMPTY),
        ExchangeRow("/", "bad", "topic", False, False, b"\x00\x00\x00\x09torn"),
    ],
    "queues": [
        QueueRow(2, "/", "bad", False, encode_table({"x-queue-type": "of-a-newer-version"})),
        QueueRow(2, "nowhere", "bad", False, EMPTY),
        QueueRow(2, "/", "bad", False, b"\x00\x00\x00\x09torn"),
    ],
    "bindings": [
        BindingRow("/", "x", "queue", "bad", "k", EMPTY),
        BindingRow("/", "bad", "queue", "q", "k", EMPTY),
        BindingRow("/", "x", "exchange", "bad", "k", EMPTY),
        BindingRow("nowhere", "x", "queue", "q", "k", EMPTY),
        BindingRow("/", "x", "queue", "q", "bad", b"\x00\x00\x00\x09torn"),
    ],
}


@pytest.mark.parametrize(("kind", "row"), [(kind, row) for kind, rows in BAD.items() for row in rows])
@pytest.mark.feature("S4-30")
def test_a_row_that_cannot_be_used_costs_itself_and_is_said(
    kind: str, row: object, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker always starts."""
    rows = GOOD._replace(**{kind: [row, *getattr(GOOD, kind)]})
    broker = Broker(node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
    restore_definitions(broker, rows, "guest", "guest")
    vhost = broker.vhost("/")
    assert vhost.route(vhost.exchange("x"), ["k"], {}).queues == ["q"]
    assert "bad" not in vhost.queues.keys() | vhost.exchanges.keys()
    assert [user.name for user in broker.users.list()] == ["ann"]
    assert len(broker.permissions.list()) == len(broker.permissions.list_topic()) == 1
    assert "cannot be restored" in caplog.text


def test_a_user_whose_hash_is_refused_is_kept_without_a_password_login(caplog: pytest.LogCaptureFixture) -> None:
    rows = GOOD._replace(users=[UserRow("bob", "no hash of ours", False, "monitoring", None, None)])
    broker = Broker(node_name="n", clock=FrozenClock(), log=MemoryLog(), memory_high_watermark=1 << 30)
    restore_definitions(broker, rows, "guest", "guest")
    assert [(user.name, user.tags) for user in broker.users.list()] == [("bob", ("monitoring",))]
    assert broker.users.authenticate("bob", "no hash of ours", now=0.0) is None
    assert "user=bob" in caplog.text
