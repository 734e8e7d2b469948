"""An authorised caller: a user in a virtual host, and the operations that every protocol offers.

Each operation checks the permissions that it needs (broker/permission_rules.py), then runs. AMQP, STOMP, the HTTP
API and in-process use are adapters over a Caller: they add frames or JSON, and decide when to answer.

Messages are published, fetched and settled by a channel (session/) or a LocalSession (broker/local.py), which get the
exchange or queue from their Caller.
"""

from __future__ import annotations

from typing import TypedDict, Unpack

from leveret.broker.access import UserAccess
from leveret.broker.permission_rules import GENERATED_NAME, NO_ARGUMENTS, Arguments, Operation
from leveret.broker.publish_rules import further_keys
from leveret.broker.vhost import Vhost
from leveret.broker.vhost_metadata import with_queue_type
from leveret.delivery.consumer import Holder
from leveret.delivery.unacked import Unacked
from leveret.errors import AccessRefused
from leveret.queues.declared_queue import DeclaredQueue, GetResult
from leveret.routing.bindings import Binding
from leveret.routing.exchange import Exchange
from leveret.wire.properties import Properties


class ExchangeFlags(TypedDict, total=False):
    durable: bool
    auto_delete: bool
    internal: bool


class QueueFlags(TypedDict, total=False):
    durable: bool
    exclusive: bool
    auto_delete: bool


class Caller:
    __slots__ = ("access", "owner", "vhost")

    def __init__(self, access: UserAccess, owner: object | None = None) -> None:
        """``owner``: the connection or session that owns exclusive queues; None: every exclusive queue is locked."""
        self.access = access
        self.owner = owner
        self.vhost: Vhost = access.vhost

    # ---- exchanges

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        arguments: Arguments = NO_ARGUMENTS,
        **flags: Unpack[ExchangeFlags],
    ) -> Exchange:
        self.access.check("declare exchange", name, arguments=arguments)
        return self.vhost.declare_exchange(name, kind, arguments=arguments, **flags)

    def existing_exchange(self, name: str) -> Exchange:
        """The exchange, as a passive declare finds it."""
        if not name:
            raise AccessRefused("operation not permitted on the default exchange")
        self.access.check("look at exchange", name)
        return self.vhost.exchange(name)

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self.access.check("delete exchange", name)
        self.vhost.delete_exchange(name, if_unused=if_unused)

    def exchange_to_publish(self, name: str, key: str) -> Exchange:
        """AMQP channels call this once per route. ``check_properties`` checks the rest of a message."""
        self.access.check("publish", name, keys=(key,))
        exchange = self.vhost.exchange(name)
        if exchange.internal:
            raise AccessRefused(f"cannot publish to internal exchange '{name}' in vhost '{self.vhost.name}'")
        return exchange

    def check_properties(self, exchange: str, properties: Properties) -> list[str]:
        """Check user_id, CC and BCC of a message; returns the routing keys in CC and BCC."""
        self.access.check_user_id(properties.user_id)
        keys = further_keys(properties.headers or {})
        if keys:
            self.access.check("publish", exchange, keys=keys)
        return keys

    # ---- queues

    def declare_queue(
        self, name: str = "", *, arguments: Arguments = NO_ARGUMENTS, **flags: Unpack[QueueFlags]
    ) -> DeclaredQueue:
        """Without a name the queue gets a generated name."""
        self.access.check("declare queue", name or GENERATED_NAME, arguments=arguments)
        is_bound = bool(flags.get("exclusive") or flags.get("auto_delete"))
        durable = bool(flags.get("durable"))
        arguments = with_queue_type(self.vhost, name, arguments or {}, durable=durable, is_bound_to_client=is_bound)
        home = self.vhost.cells.home_of_new(self.vhost, name, arguments, is_bound_to_client=is_bound)
        return self.vhost.declare_queue(name, arguments=arguments, owner=self.owner, home=home, **flags)

    def queue_to(self, operation: Operation, name: str, arguments: Arguments = NO_ARGUMENTS) -> DeclaredQueue:
        """An existing queue, for consuming, getting, browsing or another operation that this user is allowed to do."""
        self.access.check(operation, name, arguments=arguments)
        return self.vhost.queue(name, self.owner)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete the queue; returns the number of messages that were deleted with it."""
        self.access.check("delete queue", name)
        return self.vhost.delete_queue(name, if_unused=if_unused, if_empty=if_empty, owner=self.owner)

    def purge_queue(self, name: str) -> int:
        self.access.check("purge", name)
        return self.vhost.purge_queue(name, self.owner)

    # ---- bindings

    def bind(self, binding: Binding) -> bool:
        """False if the binding exists already."""
        self.check_binding(binding)
        return self.vhost.bind(binding)

    def check_binding(self, binding: Binding) -> None:
        self._check_binding("bind queue" if binding.destination.kind == "queue" else "bind exchange", binding)

    def unbind(self, binding: Binding) -> bool:
        """False if there is no such binding."""
        self.check_unbinding(binding)
        return self.vhost.unbind(binding)

    def check_unbinding(self, binding: Binding) -> None:
        self._check_binding("unbind queue" if binding.destination.kind == "queue" else "unbind exchange", binding)

    def _check_binding(self, operation: Operation, binding: Binding) -> None:
        destination = binding.destination
        self.access.check(operation, destination.name, source=binding.source, keys=(binding.key,))
        if destination.kind == "queue" and destination.name in self.vhost.queues:
            self.vhost.queue(destination.name, self.owner)  # refuses another connection's exclusive queue


class Getters:
    """The messages that a channel or local session fetches with basic.get: one holder for each source queue, besides
    the holders that are consumers."""

    __slots__ = ("_holders", "_unacked")

    def __init__(self, unacked: Unacked) -> None:
        self._unacked = unacked
        self._holders: dict[str, Holder] = {}

    def get(self, queue: DeclaredQueue, getter: object, *, auto_ack: bool) -> tuple[int, GetResult] | None:
        """The first message with its delivery tag; None if the queue is empty. ``getter`` appears in the trace."""
        taken = queue.get(auto_ack, getter)
        if taken is None:
            return None
        unacked = self._unacked
        if auto_ack:
            unacked.skip(1)
            return unacked.next_tag - 1, taken
        holder = self._holders.get(queue.name)
        if holder is None or holder.queue is not queue:
            holder = self._holders[queue.name] = Holder(queue, 0, unacked)
        tag = unacked.add(holder, taken.message, taken.lane, taken.sequence, taken.delivery_count)
        if queue.ack_timeouts is not None:
            queue.ack_timeouts.opened(unacked, 1)
        return tag, taken
