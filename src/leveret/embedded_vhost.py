"""``broker.vhost()``: the operations of AMQP on one virtual host of an embedded broker."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Literal, Protocol, TypeVar

from leveret.broker.access import in_process_access
from leveret.broker.caller import ExchangeFlags, QueueFlags
from leveret.broker.local import Delivered, LocalSession
from leveret.broker.policies import Policies
from leveret.broker.policy import Policy
from leveret.broker.policy_merge import Explanation
from leveret.broker.schedules import Page
from leveret.broker.vhost import Vhost
from leveret.config import Settings
from leveret.embedded_jobs import QueueJobs
from leveret.node import Node
from leveret.routing.bindings import Binding, Destination
from leveret.server.calls import Callback, CallbackThread
from leveret.wire.fields import Table, decode_table, encode_short, encode_table
from leveret.wire.properties import Properties

T = TypeVar("T")


class Caller(Protocol):
    """The broker that the calls go to."""

    settings: Settings

    @property
    def node(self) -> Node: ...

    def call(self, function: Callable[[], T]) -> T:
        """Run it on the loop; returns when everything that it wrote is durable."""

    def call_when_calm(self, function: Callable[[], T]) -> T:
        """The same, once there is no alarm."""

    def post(self, function: Callable[[], None]) -> None:
        """Run it on the loop soon, without waiting for it."""

    def forget(self, session: LocalSession) -> None: ...


class EmbeddedVhost:
    """Declare, bind, publish, consume and ack without a connection; same rules and errors as over AMQP."""

    def __init__(self, broker: Caller, vhost: Vhost, callbacks: CallbackThread) -> None:
        self._broker = broker
        self._callbacks = callbacks
        self._by_tag: dict[str, Callback] = {}
        self.session = LocalSession(
            in_process_access(vhost),
            self._hand_over,
            left=lambda tag: self._by_tag.pop(tag, None),
            max_message_size=broker.settings.max_message_size,
        )
        self.jobs = QueueJobs(self._call, broker.node.broker, vhost)

    def _call(self, function: Callable[[], T], publishes: bool = False) -> T:
        def run() -> T:
            self.session.check_open()
            return function()

        return self._broker.call_when_calm(run) if publishes else self._broker.call(run)

    def declare_exchange(
        self,
        name: str,
        type: str = "direct",
        *,
        durable: bool = False,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> None:
        caller, table = self.session.caller, _as_sent(name, arguments)
        flags: ExchangeFlags = {"durable": durable, "auto_delete": auto_delete, "internal": internal}
        self._call(lambda: caller.declare_exchange(name, type, arguments=table, **flags))

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._call(lambda: self.session.caller.delete_exchange(name, if_unused=if_unused))

    def declare_queue(
        self,
        name: str = "",
        *,
        durable: bool = False,
        exclusive: bool = False,
        auto_delete: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> str:
        """Returns the name of the queue, which is generated if ``name`` is empty."""
        caller, table = self.session.caller, _as_sent(name, arguments)
        flags: QueueFlags = {"durable": durable, "exclusive": exclusive, "auto_delete": auto_delete}
        return self._call(lambda: caller.declare_queue(name, arguments=table, **flags).name)

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        return self._call(lambda: self.session.caller.delete_queue(name, if_unused=if_unused, if_empty=if_empty))

    def purge_queue(self, name: str) -> int:
        return self._call(lambda: self.session.caller.purge_queue(name))

    def bind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = _binding(exchange, queue, routing_key, arguments)
        self._call(lambda: self.session.caller.bind(binding))

    def unbind(
        self, queue: str, exchange: str, routing_key: str = "", arguments: Mapping[str, object] | None = None
    ) -> None:
        binding = _binding(exchange, queue, routing_key, arguments)
        self._call(lambda: self.session.caller.unbind(binding))

    def publish(self, exchange: str, routing_key: str, body: bytes, properties: Properties | None = None) -> bool:
        """Whether the message reached a queue."""
        content = bytes(memoryview(body))  # a copy; raises TypeError for a str or int
        return self._call(lambda: self.session.publish(exchange, routing_key, content, properties), publishes=True)

    def consume(
        self,
        queue: str,
        callback: Callback,
        tag: str = "",
        *,
        auto_ack: bool = False,
        prefetch: int = 0,
        exclusive: bool = False,
        priority: int = 0,
        selector: str = "",
        pull_one: bool = False,
        arguments: Mapping[str, object] | None = None,
    ) -> str:
        """The consumer tag. The callback runs in the broker's callback thread and may call back into the broker.
        ``arguments`` as in AMQP, for example the start offset in a stream (``x-stream-offset``)."""

        def start() -> str:
            made = self.session.consume(
                queue,
                tag,
                auto_ack=auto_ack,
                prefetch=prefetch,
                exclusive=exclusive,
                priority=priority,
                selector=selector,
                pull_one=pull_one,
                arguments=arguments,
            )
            self._by_tag[made] = callback
            self._callbacks.start()
            return made

        return self._call(start)

    def _hand_over(self, tag: str, delivered: Delivered) -> None:
        """Runs on the loop. The callback runs in its own thread, and its end is reported to the loop."""
        broker, session = self._broker.node.broker, self.session

        def done() -> None:
            session.callback_done(tag)
            broker.wake()

        self._callbacks.put(session, self._by_tag[tag], delivered, lambda: self._broker.post(done))

    def cancel(self, tag: str) -> None:
        self._call(lambda: self.session.cancel(tag))

    def get(self, queue: str, *, auto_ack: bool = False) -> Delivered | None:
        while True:
            loaded: Future[None] = Future()
            found = self._call(lambda loaded=loaded: self._get(queue, auto_ack, loaded))  # type: ignore[misc]
            if not isinstance(found, Future):
                return found
            found.result()

    def _get(self, queue: str, auto_ack: bool, loaded: Future[None]) -> Delivered | Future[None] | None:
        """The message, or an object to wait for while it is read from disk."""
        target = self.session.caller.queue_to("get", queue)
        if target.when_loaded(lambda: loaded.set_result(None)):
            return loaded
        return self.session.get(queue, auto_ack=auto_ack)

    def ack(self, delivery_tag: int, *, multiple: bool = False) -> None:
        self._call(lambda: self.session.ack(delivery_tag, multiple=multiple))

    def nack(self, delivery_tag: int, *, multiple: bool = False, requeue: bool = True) -> None:
        self._call(lambda: self.session.nack(delivery_tag, multiple=multiple, requeue=requeue))

    def message_count(self, queue: str) -> int:
        """The number of ready messages."""

        def count() -> int:
            found = self.session.caller.queue_to("look at queue", queue)
            self.session.vhost.settle_down(found)
            return found.ready

        return self._call(count)

    # ---- policies

    @property
    def _policies(self) -> Policies:
        return self._broker.node.broker.policies

    def set_policy(
        self,
        name: str,
        pattern: str,
        definition: Mapping[str, object],
        *,
        apply_to: str = "all",
        priority: int = 0,
        operator: bool = False,
    ) -> None:
        """Create or replace a policy. It applies to matching queues and exchanges before this returns."""
        vhost, policies = self.session.vhost.name, self._policies
        self._call(
            lambda: policies.set(
                vhost, name, pattern, definition, apply_to=apply_to, priority=priority, operator=operator
            )
        )

    def delete_policy(self, name: str, *, operator: bool = False) -> None:
        vhost, policies = self.session.vhost.name, self._policies
        self._call(lambda: policies.delete(vhost, name, operator))

    def policies(self) -> tuple[Policy, ...]:
        """By priority, the highest first; operator policies last."""
        vhost, policies = self.session.vhost.name, self._policies
        return self._call(lambda: policies.list(vhost))

    def explain(self, name: str, kind: Literal["queue", "exchange"] = "queue") -> Explanation:
        """Every value that applies to a queue or exchange with its source, and the values it overrides."""
        vhost, owner = self.session.vhost, self.session

        def explain() -> Explanation:
            return vhost.policies.explain(vhost.exchange(name) if kind == "exchange" else vhost.queue(name, owner))

        return self._call(explain)

    def scheduled(self, limit: int = 100, after: int | None = None) -> Page:
        """Messages that are not due yet, the earliest first; ``page.next`` is ``after`` of the next page."""
        page: Future[Page] = Future()
        self._call(lambda: self.session.vhost.schedules.list(limit, after, page.set_result))
        return page.result()

    def scheduled_count(self) -> int:
        return self._call(lambda: self.session.vhost.schedules.count)

    def cancel_scheduled(self, id: str) -> bool:
        """Delete a scheduled message. Returns whether it was still there."""
        return self._call(lambda: self.session.vhost.schedules.cancel(id))

    def close(self) -> None:
        """Remove consumers and exclusive queues, and requeue unacknowledged messages. Closing twice has no effect."""

        def close() -> None:
            self.session.close()
            self._broker.forget(self.session)

        self._broker.call(close)


def _binding(exchange: str, queue: str, routing_key: str, arguments: Mapping[str, object] | None) -> Binding:
    return Binding(exchange, Destination("queue", queue), routing_key, _as_sent(routing_key, arguments))


def _as_sent(name: str, arguments: Mapping[str, object] | None) -> Table:
    """A copy of the arguments as if received over AMQP; types and the name must be valid there."""
    encode_short(name)
    data = encode_table(arguments or {})
    return decode_table(data, 0, len(data))[0]
