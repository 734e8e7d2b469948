"""Nodes join and leave by their names."""

from __future__ import annotations

import pytest

from leveret.sharding.membership import Membership
from tests.support.peer_pair import Harness


@pytest.mark.feature("S2-11")
def test_nodes_join_in_order_and_each_once() -> None:
    changes: list[tuple[str, ...]] = []
    membership = Membership(Harness(node_name="a").broker, lambda: changes.append(membership.names))
    membership.join("c")
    membership.join("b")
    membership.join("c")
    assert changes == [("a", "c"), ("a", "c", "b")]


@pytest.mark.feature("S2-13")
def test_nodes_leave_once_and_the_own_node_stays() -> None:
    changes: list[tuple[str, ...]] = []
    membership = Membership(Harness(node_name="a").broker, lambda: changes.append(membership.names))
    membership.join("b")
    changes.clear()
    membership.leave("b")
    membership.leave("b")
    assert changes == [("a",)]
    with pytest.raises(ValueError, match="'a' cannot leave itself"):
        membership.leave("a")


def test_a_node_needs_a_name() -> None:
    with pytest.raises(ValueError, match="without a name"):
        Membership(Harness(node_name="a").broker, lambda: None).join("")
