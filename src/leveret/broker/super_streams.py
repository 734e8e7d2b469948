"""Super streams (partitioned streams): the streams behind one exchange, in the order of their partitions.

There are two kinds: a policy that shards an exchange over streams (``shards-per-node`` with ``shard-queue-type``), or
RabbitMQ's: an exchange with the argument ``x-super-stream``, bound to streams with ``x-stream-partition-order``.
"""

from __future__ import annotations

from leveret.broker.vhost import Vhost
from leveret.errors import NotFound, PreconditionFailed
from leveret.queues.declared_queue import DeclaredQueue
from leveret.queues.stream import StreamQueue
from leveret.queues.stream_options import STREAM
from leveret.routing.bindings import Binding

ORDER = "x-stream-partition-order"
LAST = 1 << 30  # sorts after all partitions with an explicit order


def partitions_of(vhost: Vhost, name: str) -> list[StreamQueue]:
    """The partitions that are in this cell. Raises the errors of ``all_partitions_of``."""
    return [stream for queue in all_partitions_of(vhost, name) if (stream := queue.stream) is not None]


def all_partitions_of(vhost: Vhost, name: str) -> list[DeclaredQueue]:
    """The partitions in all cells; NotFound if there is no such exchange, PreconditionFailed if a bound queue is not a
    stream."""
    pool = vhost.pools.get(name)
    if pool is not None:
        queues = pool.everywhere()
    else:
        vhost.exchange(name)
        bindings = sorted(vhost.bindings.of_source(name), key=_place)
        names = dict.fromkeys(each.destination.name for each in bindings if each.destination.kind == "queue")
        queues = [vhost.queues[each] for each in names]
    if not queues:
        raise NotFound(f"super stream '{name}' in vhost '{vhost.name}' has no partitions: bind streams to it")
    other = next((queue.name for queue in queues if queue.options.kind != STREAM), None)
    if other is not None:
        raise PreconditionFailed(
            f"exchange '{name}' in vhost '{vhost.name}' is not a super stream: queue '{other}' is not a stream; "
            "shard it with shard-queue-type stream, or read the queue by its name"
        )
    return queues


def _place(binding: Binding) -> tuple[int, str]:
    order = binding.arguments.get(ORDER)
    if not isinstance(order, int):
        order = int(binding.key) if binding.key.isdecimal() and len(binding.key) < 10 else LAST
    return order, binding.destination.name
