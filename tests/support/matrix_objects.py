"""The objects that the operations of the matrix use: created again before each operation."""

from __future__ import annotations

from leveret import Broker
from leveret.broker.broker import Broker as Core
from leveret.broker.plugins import PLUGINS, find_plugin
from leveret.broker.vhost import Vhost
from leveret.pipeline.transactions import CommitRow
from leveret.routing.bindings import Binding, Destination
from leveret.schemas.schema import Schema
from tests.support.matrix_users import ALL, OTHER, VHOST

SPARE = "spare"  # a virtual host that may be deleted
NEW = "new"
SCHEMA_TEXT = "id STRING"
PINNED_READER = "pinned-reader"
VICTIM = "victim"  # a user of whom the same is true


def arrange(broker: Broker) -> None:
    broker.call(lambda: _arrange(broker.node.broker))
    broker.call(lambda: _arrange_transactions(broker))


def _arrange_transactions(broker: Broker) -> None:
    commits, vhost = broker.node.pipeline.commits, broker.node.broker.vhosts[VHOST]
    commits.delete(vhost, NEW)
    commits.transactions(vhost).put("t", CommitRow(1, [], 0, VICTIM))


def _arrange(core: Core) -> None:
    _remove_new(core)
    for name in (VHOST, SPARE, OTHER):
        core.add_vhost(name)
    if VICTIM not in core.users:
        core.users.add(VICTIM, password="secret", tags=[])
    for user in (VICTIM, "guest"):
        core.permissions.set(user, VHOST, ALL, ALL, ALL)
    core.permissions.set_topic(VICTIM, VHOST, "x", ALL, ALL)
    vhost = core.vhosts[VHOST]
    core.limit_vhost(VHOST, max_queues=None, max_connections=None)
    vhost.declare_queue("q", durable=True)
    vhost.declare_queue("r", durable=True)
    vhost.declare_queue("leased", durable=True)
    vhost.declare_queue("s", durable=True, arguments={"x-queue-type": "stream"})
    for exchange in ("x", "y"):
        vhost.declare_exchange(exchange, "direct", durable=True)
    vhost.declare_exchange("t", "topic", durable=True)
    vhost.declare_exchange("d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "topic"})
    for destination in (Destination("queue", "q"), Destination("exchange", "y")):
        vhost.bind(Binding("x", destination, "k", {}))
    for operator in (False, True):
        core.policies.set(VHOST, "p", "^nothing$", {"max-length": 10}, apply_to="queues", operator=operator)
    vhost.stream_offsets.put("s", "c", 0, False)
    vhost.stream_offsets.put("s", PINNED_READER, 0, True)
    core.parameters.put("g", 1)
    vhost.schemas.add("schema", Schema("json", SCHEMA_TEXT), "backward")
    core.plugins.enable(find_plugin("sharding"))


def _remove_new(core: Core) -> None:
    """What operations make is called new."""
    if NEW in core.users:
        core.users.delete(NEW)
    if NEW in core.vhosts:
        core.delete_vhost(NEW)
    if NEW in core.parameters:
        core.parameters.drop(NEW)
    vhost = core.vhosts.get(VHOST)
    if vhost is None:
        return
    if NEW in vhost.queues:
        vhost.delete_queue(NEW)
    vhost.stream_offsets.drop("s", NEW)
    if vhost.schemas.get(NEW) is not None:
        vhost.schemas.delete(NEW)
    if NEW in vhost.exchanges:
        vhost.delete_exchange(NEW)
    for operator in (False, True):
        if vhost.policies.get(NEW, operator) is not None:
            core.policies.delete(VHOST, NEW, operator)


def snapshot(broker: Broker) -> object:
    """All that an operation could have changed."""
    core = broker.node.broker

    def look() -> object:
        return (
            sorted(user.name for user in core.users.list()),
            core.permissions.list(),
            core.permissions.list_topic(),
            core.parameters.all(),
            [core.plugins.is_enabled(plugin) for plugin in PLUGINS],
            {name: _of_vhost(vhost) for name, vhost in core.vhosts.items()},
        )

    return broker.call(look)


def _of_vhost(vhost: Vhost) -> object:
    return (
        {name: queue.ready for name, queue in vhost.queues.items()},
        sorted(vhost.exchanges),
        [vhost.bindings.of_source(name) for name in sorted(vhost.exchanges)],
        [(policy.name, policy.operator) for policy in vhost.policies.in_order()],
        (vhost.max_queues, vhost.max_connections),
        vhost.stream_offsets.list(),
        vhost.schemas.list(),
        vhost.schedules.count,
    )
