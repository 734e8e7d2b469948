"""Leases on classic queues: messages leased by consumers and not committed yet.

A lease does not time out: its messages belong to the consumer until it commits or releases them. To release a lease,
use ``DELETE /api/pipeline/{vhost}/leases?queue=Q&consumer=C&lease=N``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from starlette.requests import Request
from starlette.routing import Route

from leveret.api.context import ApiContext
from leveret.api.endpoints import vhost_lists
from leveret.broker.leases import Lease
from leveret.broker.vhost import Vhost
from leveret.http.rows import Field, RowDescription


class FoundLease(NamedTuple):
    lease: Lease
    now: float


LEASE_ROWS: RowDescription[FoundLease] = RowDescription(
    [
        Field(("name",), lambda found: found.lease.consumer),
        Field(("consumer",), lambda found: found.lease.consumer),
        Field(("queue",), lambda found: found.lease.queue.name),
        Field(("vhost",), lambda found: found.lease.queue.vhost),
        Field(("lease",), lambda found: found.lease.number),
        Field(("messages",), lambda found: found.lease.messages),
        Field(("bytes",), lambda found: found.lease.bytes),
        Field(("since",), lambda found: found.lease.since),
        Field(("age",), lambda found: max(found.now - found.lease.since, 0.0)),
    ],
    exists=lambda found: found.lease.queue.alive,
)


def routes(context: ApiContext) -> list[Route]:
    def leases(request: Request, vhosts: Sequence[Vhost]) -> list[FoundLease]:
        now = context.clock.wall()
        return [FoundLease(lease, now) for vhost in vhosts for lease in context.broker.leases.leases(vhost.name)]

    return vhost_lists(context, "/api/leases", LEASE_ROWS, leases)
