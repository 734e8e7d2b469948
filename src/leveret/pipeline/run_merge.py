"""Fewer runs of the same messages, if addresses alternate: a record of the log holds messages of one address.

Every queue must get the same messages in the same order. So messages of one address are moved before others only if no
queue gets both: addresses that share a queue are *related*, and related ones keep their order.
"""

from __future__ import annotations

from collections.abc import Sequence

from leveret.message import Address, Message
from leveret.pipeline.inflow import AddressRoutes, Incoming, incoming

Run = list[Message]


def merged(arrived: Sequence[Incoming], routes: AddressRoutes) -> Sequence[Incoming]:
    runs = [each.messages for each in arrived]
    fewer = merged_runs(runs, routes)
    if fewer is runs:
        return arrived
    is_plain = all(each.is_plain for each in arrived)
    return [incoming(run, is_plain=is_plain) for run in fewer]


def merged_runs(runs: Sequence[Run], routes: AddressRoutes) -> Sequence[Run]:
    addresses = {id(run[0][1]): run[0][1] for run in runs}
    if len(addresses) == len(runs):
        return runs
    family_of = _families(list(addresses.values()), routes)
    if family_of is None:
        return runs
    families: dict[int, list[Run]] = {}
    for run in runs:
        family = families.setdefault(family_of[id(run[0][1])], [])
        if family and family[-1][0][1] is run[0][1]:
            family[-1] += run
        else:
            family.append(list(run))
    return [run for family in families.values() for run in family]


def _families(addresses: Sequence[Address], routes: AddressRoutes) -> dict[int, int] | None:
    """A number for each address (by its id), the same for related ones; None if that cannot be determined."""
    parents = list(range(len(addresses)))
    first_with: dict[int, int] = {}  # by queue: the place of an address that reaches it

    def root(place: int) -> int:
        while parents[place] != place:
            parents[place] = place = parents[parents[place]]
        return place

    for place, address in enumerate(addresses):
        route = routes.of(address)
        if route is None or route.special:
            return None
        for queue in route.queues:
            other = first_with.setdefault(id(queue), place)
            parents[root(place)] = root(other)
    return {id(address): root(place) for place, address in enumerate(addresses)}
