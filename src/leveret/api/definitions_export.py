"""Export of definitions in RabbitMQ's format, without exclusive queues and predeclared exchanges.

Rows are made in time slices, so objects may be deleted during an export. A binding is exported only if its source and
destination are, so that every export can be imported.
"""

from __future__ import annotations

from functools import partial
from itertools import chain

from leveret.api.context import ApiContext
from leveret.api.permissions import RULE_ROWS, TOPIC_RULE_ROWS
from leveret.api.policies import policy_row
from leveret.api.views.exchange import BINDING_ROWS, EXCHANGE_ROWS, FoundExchange
from leveret.api.views.parameter import parameters_of
from leveret.api.views.schema import exported_row, versions_of
from leveret.api.views.user import keep_pending_hash, user_row
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_metadata import metadata_of
from leveret.http.listings import viewed
from leveret.http.rows import Row
from leveret.queues.declared_queue import DeclaredQueue
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.routing.types import PREDECLARED
from leveret.stats.samples import NO_WINDOWS
from leveret.version import VERSION

RABBITMQ_VERSION = "3.13.7"  # reported to tools
EXCHANGE_COLUMNS = EXCHANGE_ROWS.only(("name", "vhost", "type", "durable", "auto_delete", "internal"))
BINDING_COLUMNS = BINDING_ROWS.only(("source", "vhost", "destination", "destination_type", "routing_key"))
SECTIONS = ("parameters", "policies", "schemas", "queues", "exchanges", "bindings")
PREDECLARED_NAMES = frozenset(name for name, _ in PREDECLARED)


async def exported(context: ApiContext) -> Row:
    """The definitions of the whole broker."""
    broker = context.broker
    for user in broker.users.list():
        await keep_pending_hash(context, user)
    vhosts = sorted(broker.vhosts.values(), key=lambda vhost: vhost.name)
    return {
        "rabbit_version": RABBITMQ_VERSION,
        "rabbitmq_version": RABBITMQ_VERSION,
        "product_name": "Leveret",
        "product_version": VERSION,
        "users": await viewed(broker.users.list(), user_row),
        "vhosts": await viewed(vhosts, _vhost_row),
        "permissions": await viewed(broker.permissions.list(), RULE_ROWS.row),
        "topic_permissions": await viewed(broker.permissions.list_topic(), TOPIC_RULE_ROWS.row),
        "global_parameters": [{"name": name, "value": value} for name, value in broker.parameters.all().items()],
        **await _contents(context, vhosts),
    }


async def exported_vhost(context: ApiContext, vhost: Vhost) -> Row:
    """The definitions in one virtual host, without its name, so that they can be imported into another one."""
    contents = await _contents(context, [vhost])
    for row in chain.from_iterable(contents.values()):
        row.pop("vhost", None)
    return {"rabbit_version": RABBITMQ_VERSION, **contents}


async def _contents(context: ApiContext, vhosts: list[Vhost]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {name: [] for name in SECTIONS}
    for vhost in vhosts:
        if context.broker.vhosts.get(vhost.name) is not vhost:
            continue  # deleted during the export
        found["parameters"] += [row for row in parameters_of(vhost) if row["component"] != "policy"]
        policies = [policy for policy in vhost.policies.in_order() if not policy.operator]
        found["policies"] += await viewed(policies, policy_row)
        found["schemas"] += await viewed(versions_of(vhost), partial(exported_row, vhost))
        queues = await viewed(vhost.queues.values(), queue_row)
        exchanges = await viewed(vhost.exchanges.values(), partial(exchange_row, context, vhost))
        found["queues"] += queues
        found["exchanges"] += exchanges
        found["bindings"] += await _bindings(vhost, queues, exchanges)
    if not found["schemas"]:
        del found["schemas"]  # RabbitMQ does not have them: without any, the file has RabbitMQ's sections only
    return found


async def _bindings(vhost: Vhost, queues: list[Row], exchanges: list[Row]) -> list[Row]:
    sources = {row["name"] for row in exchanges} | PREDECLARED_NAMES
    known = {"queue": {row["name"] for row in queues}, "exchange": sources}

    def row(binding: Binding) -> Row | None:
        kind, name = binding.destination
        return binding_row(vhost, binding) if name in known[kind] else None

    found: list[Row] = []
    for source in sorted(sources):
        found += await viewed(vhost.bindings.of_source(source), row)
    return found


def _vhost_row(vhost: Vhost) -> Row:
    facts = metadata_of(vhost)
    row = {"name": vhost.name, "description": facts["description"], "tags": facts["tags"], "metadata": facts}
    return {**row, "cell": vhost.cell} if vhost.cell else row


def queue_row(queue: DeclaredQueue) -> Row | None:
    if queue.owner is not None:
        return None
    return {
        "name": queue.name,
        "vhost": queue.vhost,
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": dict(queue.arguments),
    }


def exchange_row(context: ApiContext, vhost: Vhost, exchange: Exchange) -> Row | None:
    if not exchange.name or exchange.name in PREDECLARED_NAMES:
        return None
    found = FoundExchange(vhost, exchange, context, NO_WINDOWS)
    return EXCHANGE_COLUMNS.row(found) | {"arguments": dict(exchange.arguments)}


def binding_row(vhost: Vhost, binding: Binding) -> Row:
    return BINDING_COLUMNS.row((vhost, binding)) | {"arguments": dict(binding.arguments)}
