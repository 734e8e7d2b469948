"""Features that RabbitMQ ships as plugins are built in; some of them can be disabled.

A disabled plugin accepts nothing new: no exchange of its types, no policy with its keys. Existing objects keep working
and can be redeclared. The check is made at declaration, never per message. The names of disabled plugins are rows of
the definitions that belong to no virtual host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from leveret.broker.parameters import NO_VHOST
from leveret.broker.policy import Policy
from leveret.errors import NotFound, PreconditionFailed
from leveret.routing.consistent_hash import ConsistentHashExchange
from leveret.routing.delayed import DELAYED, DELAYED_TYPE
from leveret.routing.exchange import Exchange
from leveret.routing.modulus_hash import ModulusHashExchange
from leveret.routing.random_exchange import RandomExchange
from leveret.store.definitions import Change, Drop, ParameterRow, Put

COMPONENT = "disabled-plugin"


class Plugin(NamedTuple):
    """``rabbitmq_name`` is empty if RabbitMQ has no such plugin. ``bound_to``: the setting or object that controls a
    plugin that cannot be disabled."""

    name: str
    rabbitmq_name: str
    description: str
    exchange_types: frozenset[str] = frozenset()
    policy_keys: frozenset[str] = frozenset()
    bound_to: str = ""

    @property
    def is_switchable(self) -> bool:
        return bool(self.exchange_types or self.policy_keys)


PLUGINS = (
    Plugin(
        "consistent_hash_exchange",
        "rabbitmq_consistent_hash_exchange",
        "exchanges of type x-consistent-hash: routing keys are spread over queues by weight",
        frozenset({ConsistentHashExchange.kind}),
    ),
    Plugin(
        "delayed_message_exchange",
        "rabbitmq_delayed_message_exchange",
        "exchanges of type x-delayed-message: messages are routed after a delay",
        frozenset({DELAYED}),
    ),
    Plugin(
        "random_exchange",
        "rabbitmq_random_exchange",
        "exchanges of type x-random: each message goes to one random queue",
        frozenset({RandomExchange.kind}),
    ),
    Plugin(
        "sharding",
        "rabbitmq_sharding",
        "exchanges of type x-modulus-hash, and policies that shard exchanges",
        frozenset({ModulusHashExchange.kind}),
        frozenset({"shards-per-node", "shard-queue-type", "ordered-resize", "sharded"}),
    ),
    Plugin(
        "management",
        "rabbitmq_management",
        "the HTTP API and the management UI",
        bound_to="the setting http_port",
    ),
    Plugin(
        "management_agent",
        "rabbitmq_management_agent",
        "statistics and message rates",
        bound_to="the setting http_port",
    ),
    Plugin(
        "prometheus",
        "rabbitmq_prometheus",
        "metrics at /metrics of the HTTP port",
        bound_to="the setting http_port",
    ),
    Plugin(
        "auth_mechanism_ssl",
        "rabbitmq_auth_mechanism_ssl",
        "authentication with client certificates (EXTERNAL)",
        bound_to="the setting tls_ca",
    ),
    Plugin(
        "message_deduplication",
        "rabbitmq_message_deduplication",
        "queues that drop duplicate messages",
        bound_to="the queue argument x-message-deduplication",
    ),
    Plugin(
        "queue_jobs",
        "",
        "moves, copies and redrives between queues; no shovel to other brokers",
        bound_to="leveret move, copy and redrive",
    ),
)
BY_NAME: Mapping[str, Plugin] = {
    name: plugin for plugin in PLUGINS for name in (plugin.name, plugin.rabbitmq_name) if name
}


def find_plugin(name: str) -> Plugin:
    """Find a plugin by its own name or by RabbitMQ's name."""
    plugin = BY_NAME.get(name)
    if plugin is None:
        raise NotFound(f"no plugin '{name}': known plugins are {', '.join(each.name for each in PLUGINS)}")
    return plugin


class Plugins:
    """The disabled plugins. ``record`` writes a change before it takes effect."""

    def __init__(self, record: Callable[[Change], None]) -> None:
        self._record = record
        self._disabled: set[str] = set()

    def is_enabled(self, plugin: Plugin) -> bool:
        return plugin.name not in self._disabled

    def knows_type(self, kind: str) -> bool:
        """Whether exchanges of the type can be declared now."""
        return self._off(lambda plugin: kind in plugin.exchange_types) is None

    def enable(self, plugin: Plugin) -> None:
        if not self.is_enabled(plugin):
            self._record(Drop(ParameterRow, (NO_VHOST, COMPONENT, plugin.name)))
            self._disabled.remove(plugin.name)

    def disable(self, plugin: Plugin) -> None:
        if not plugin.is_switchable:
            raise PreconditionFailed(
                f"plugin '{plugin.name}' cannot be disabled: it is part of the broker, and goes with {plugin.bound_to}"
            )
        if self.is_enabled(plugin):
            self._record(Put(ParameterRow(NO_VHOST, COMPONENT, plugin.name, b"true")))
            self._disabled.add(plugin.name)

    def restore(self, names: Iterable[str]) -> None:
        """Called after all definitions are restored. Names that are unknown in this version are skipped."""
        self._disabled = {name for name in names if name in BY_NAME}

    # ---- checks at declaration

    def refuse_exchange(self, exchange: Exchange, vhost: str) -> None:
        plugin = self._off(lambda plugin: uses_type(plugin, exchange))
        if plugin is not None:
            kinds = " and ".join(sorted(plugin.exchange_types))
            raise PreconditionFailed(
                f"unknown exchange type '{exchange.kind}' for exchange '{exchange.name}' in vhost '{vhost}': the "
                f"plugin '{plugin.name}', which brings {kinds}, is disabled: leveret plugins enable {plugin.name}"
            )

    def refuse_policy(self, policy: Policy, before: Policy | None) -> None:
        """``before``: the policy that is replaced, whose keys the new one may keep."""
        kept = {} if before is None else before.definition
        asked = {key for key, value in policy.definition.items() if kept.get(key) != value}
        plugin = self._off(lambda plugin: not asked.isdisjoint(plugin.policy_keys))
        if plugin is not None:
            keys = ", ".join(sorted(asked & plugin.policy_keys))
            raise PreconditionFailed(
                f"{policy.label} in vhost '{policy.vhost}': {keys} is not a recognised policy setting, since the "
                f"plugin '{plugin.name}' is disabled: leveret plugins enable {plugin.name}"
            )

    def _off(self, concerns: Callable[[Plugin], bool]) -> Plugin | None:
        if not self._disabled:
            return None
        return next((each for each in PLUGINS if each.name in self._disabled and concerns(each)), None)


def uses_type(plugin: Plugin, exchange: Exchange) -> bool:
    """Whether the exchange has one of the plugin's types, or is a delayed exchange over such a type."""
    inner = exchange.arguments.get(DELAYED_TYPE) if exchange.kind == DELAYED else None
    return exchange.kind in plugin.exchange_types or inner in plugin.exchange_types


def uses_keys(plugin: Plugin, policy: Policy) -> bool:
    return not plugin.policy_keys.isdisjoint(policy.definition)
