"""Who is connected, and the limits on connections and channels."""

from __future__ import annotations

import pytest

from leveret.broker.registry import Registry
from leveret.errors import NotAllowed
from tests.support.peer_pair import Harness


def test_connections_come_and_go() -> None:
    harness = Harness()
    assert len(harness.broker.registry) == 0
    client = harness.client()
    assert list(harness.broker.registry.connections) == [client.session]
    client.vanish()
    harness.broker.registry.remove(client.session)
    assert len(harness.broker.registry) == 0


def test_a_user_may_have_so_many_connections() -> None:
    registry = Registry()
    registry.enter("ann", 2, "/", None)
    registry.enter("ann", 2, "/", None)
    with pytest.raises(NotAllowed, match=r"user 'ann': user connection limit \(2\) is reached"):
        registry.enter("ann", 2, "/", None)
    registry.enter("bob", 2, "/", None)
    registry.leave("ann", "/")
    registry.enter("ann", 2, "/", None)


def test_a_vhost_may_have_so_many_connections() -> None:
    registry = Registry()
    registry.enter("ann", None, "shop", 1)
    with pytest.raises(NotAllowed, match=r"vhost 'shop' refused for user 'bob': connection limit \(1\)"):
        registry.enter("bob", None, "shop", 1)
    registry.leave("ann", "shop")
    registry.enter("bob", None, "shop", 1)


def test_a_user_may_have_so_many_channels() -> None:
    registry = Registry()
    registry.open_channel("ann", 1)
    with pytest.raises(NotAllowed, match=r"user 'ann' has reached the maximum allowed \(1\)"):
        registry.open_channel("ann", 1)
    registry.open_channel("bob", 1)
    registry.close_channel("ann")
    registry.open_channel("ann", 1)
    registry.open_channel("ann", None)
    registry.close_channel("ann")


def test_names_that_come_and_go_leave_nothing_behind() -> None:
    registry = Registry()
    registry.enter("ann", 5, "/", 5)
    registry.open_channel("ann", 5)
    registry.close_channel("ann")
    registry.leave("ann", "/")
    assert not registry._per_user
    assert not registry._per_vhost
    assert not registry._channels_per_user
