"""Which node may lead, and the reason that is given for it."""

from __future__ import annotations

import pytest

from leveret.cluster.lease import HeldLease, LeaseHolder
from leveret.cluster.status import (
    FOUNDED,
    HAND_OVER,
    LEASE_EXPIRED,
    NODE_STOPPED,
    PROCESS_ENDED,
    RESTARTED,
    UNRESPONSIVE,
)
from leveret.cluster.succession import SUCCESSOR_SECONDS, UNFIT_SECONDS, Succession
from leveret.replication.claims import Claim

CLAIM = Claim(5, 100, 90, "a", "life of a")


class FakeWatch:
    """The process with the life *ended* has ended; *stopped* only sends nothing."""

    def is_dead(self, held: HeldLease) -> bool:
        return held.holder.life in ("ended", "stopped")

    def has_ended(self, life: str) -> bool:
        return life == "ended"


def succession() -> Succession:
    return Succession("a", "life of a", FakeWatch())  # type: ignore[arg-type]


def held(node: str, life: str, *, is_released: bool = False, successor: str = "") -> HeldLease:
    return HeldLease(LeaseHolder(node, life, 4, is_released, successor=successor), 7)


@pytest.mark.parametrize(
    ("lease", "epoch", "reason"),
    [
        (None, 0, FOUNDED),
        (None, 4, LEASE_EXPIRED),
        (held("a", "former life of a"), 4, RESTARTED),
        (held("b", "ended"), 4, PROCESS_ENDED),
        (held("b", "stopped"), 4, UNRESPONSIVE),
        (held("b", "life of b", is_released=True), 4, NODE_STOPPED),
        (held("b", "life of b", is_released=True, successor="a"), 4, HAND_OVER),
    ],
)
def test_a_take_over_has_a_reason_and_takes_from_its_detection(
    lease: HeldLease | None, epoch: int, reason: str
) -> None:
    one = succession()
    assert one.may_lead(lease, epoch, 10.0)
    assert one.may_lead(lease, epoch, 10.5)  # not caught up before
    taken = one.taken_over(CLAIM, 11.0)
    assert (taken.epoch, taken.node, taken.reason, taken.seconds) == (5, "a", reason, 1.0)


def test_a_leader_that_is_alive_ends_what_was_detected() -> None:
    one = succession()
    assert one.may_lead(held("b", "ended"), 4, 10.0)
    assert not one.may_lead(held("c", "alive"), 5, 11.0)
    assert one.may_lead(None, 5, 12.0)
    taken = one.taken_over(CLAIM, 13.0)
    assert (taken.reason, taken.seconds) == (LEASE_EXPIRED, 1.0)


def test_the_successor_of_a_hand_over_goes_first() -> None:
    one, lease = succession(), held("b", "life of b", is_released=True, successor="c")
    assert not one.may_lead(lease, 4, 10.0)
    assert not one.may_lead(lease, 4, 10.0 + SUCCESSOR_SECONDS)
    assert one.may_lead(lease, 4, 10.1 + SUCCESSOR_SECONDS)
    assert one.taken_over(CLAIM, 14.0).reason == HAND_OVER


def test_a_node_that_stepped_down_lets_others_go_first() -> None:
    one, lease = succession(), held("a", "life of a", is_released=True)
    one.stepped_down(10.0)
    assert not one.may_lead(lease, 4, 10.5)
    assert one.may_lead(lease, 4, 10.1 + SUCCESSOR_SECONDS)


@pytest.mark.parametrize(
    "lease", [None, held("a", "life of a"), held("a", "life of a", is_released=True)], ids=["none", "held", "released"]
)
def test_a_node_whose_disk_has_failed_leaves_time_to_the_others(lease: HeldLease | None) -> None:
    one = succession()
    one.stepped_down(100.0, is_unfit=True)
    assert not one.may_lead(lease, 4, 100.0 + UNFIT_SECONDS - 0.1)
    assert one.may_lead(lease, 4, 100.0 + UNFIT_SECONDS + 0.1)
