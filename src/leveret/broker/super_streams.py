"""Partitioned streams: the queues behind one exchange, in the order of their partitions.

Two ways lead to one. A policy that shards an exchange over streams (``shards-per-node`` with ``shard-queue-type``), or
RabbitMQ's: an exchange with the argument ``x-super-stream``, bound to streams with ``x-stream-partition-order``.
"""

from __future__ import annotations

from leveret.broker.vhost import Vhost
from leveret.errors import NotFound, PreconditionFailed
from leveret.queues.stream import StreamQueue
from leveret.routing.bindings import Binding

ORDER = "x-stream-partition-order"
LAST = 1 << 30  # behind all that say where they belong


def partitions_of(vhost: Vhost, name: str) -> list[StreamQueue]:
    """NotFound if there is no such exchange, PreconditionFailed if what it leads to are not streams."""
    pool = vhost.pools.get(name)
    if pool is not None:
        queues = pool.local()
    else:
        vhost.exchange(name)
        bindings = sorted(vhost.bindings.of_source(name), key=_place)
        names = dict.fromkeys(each.destination.name for each in bindings if each.destination.kind == "queue")
        queues = [vhost.queues[each] for each in names]
    if not queues:
        raise NotFound(f"super stream '{name}' in vhost '{vhost.name}' has no partitions: bind streams to it")
    streams = [queue for queue in queues if isinstance(queue, StreamQueue)]
    if len(streams) < len(queues):
        other = next(queue.name for queue in queues if not isinstance(queue, StreamQueue))
        raise PreconditionFailed(
            f"exchange '{name}' in vhost '{vhost.name}' is no super stream: queue '{other}' is not a stream; shard it "
            "with shard-queue-type stream, or read the queue by its name"
        )
    return streams


def _place(binding: Binding) -> tuple[int, str]:
    order = binding.arguments.get(ORDER)
    if not isinstance(order, int):
        order = int(binding.key) if binding.key.isdecimal() and len(binding.key) < 10 else LAST
    return order, binding.destination.name
