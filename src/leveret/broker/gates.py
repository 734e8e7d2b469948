"""Gates: destinations that store nothing and pass each message on to another queue (sharding/slot_gate.py).

A gate is a queue that answers later. What must leave one place and enter another in one group of the log cannot wait
for an answer: it goes past the gate, to the queues that get its messages, once nothing that was sent before is still
in front of the gate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol

from leveret.broker.remote_writes import RoutedRun
from leveret.broker.routes import Route
from leveret.logs import get_log
from leveret.message import Message
from leveret.queues.queue import Queue

if TYPE_CHECKING:
    from leveret.broker.vhost import Vhost


class Gate(Queue, Protocol):
    def target(self, message: Message) -> Queue | None:
        """The queue that gets the message; None if there is none."""

    def when_clear(self, call: Callable[[], None]) -> bool:
        """Call ``call`` when messages may go past the gate; False if they may now."""


def gates_of(vhost: Vhost, route: Route) -> list[Gate]:
    if not route.answers_later or not vhost.gates:
        return []
    return [gate for queue in route.queues if (gate := vhost.gates.get(queue.name)) is queue]


def past_gates(vhost: Vhost, run: RoutedRun) -> Iterator[RoutedRun]:
    """The same run, to the queues behind the gates of its route."""
    gates = gates_of(vhost, run.route)
    if not gates:
        yield run
        return
    if rest := [queue for queue in run.route.queues if queue not in gates]:
        yield run._replace(route=Route(rest))
    for gate in gates:
        shares: dict[Queue, list[Message]] = {}
        for message in run.messages:
            queue = gate.target(message)
            if queue is None:
                get_log("broker").warning("message dropped", vhost=vhost.name, reason="its exchange has no shards")
            else:
                shares.setdefault(queue, []).append(message)
        for queue, messages in shares.items():
            yield run.only(messages)._replace(route=Route([queue]))
