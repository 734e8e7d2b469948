"""Where would it go: the walk over bindings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from leveret.api.views.route import _bindings_taken
from leveret.routing.bindings import Binding, Destination
from tests.support.peer_pair import Harness


class Counted(list[Destination]):
    walks = 0

    def __iter__(self) -> Iterator[Destination]:
        self.walks += 1
        return super().__iter__()


def test_what_was_reached_is_not_walked_through_for_every_binding() -> None:
    vhost = Harness().vhost
    reached = Counted()
    for number in range(50):
        vhost.declare_queue(f"q{number}")
        reached.append(Destination("queue", f"q{number}"))
        vhost.bind(Binding("amq.fanout", reached[-1], "", {}))
    rows = asyncio.run(_bindings_taken(vhost, vhost.exchanges["amq.fanout"], reached, "", {}))
    assert [row["destination"] for row in rows] == [stop.name for stop in list(reached)]
    assert reached.walks <= 4
