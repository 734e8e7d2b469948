"""Sharding over real processes under load: cells are killed and removed, shards are added, order is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cell_clients import clients_by_cell, until
from tests.support.cell_processes import cell_processes, kill_cell
from tests.support.shard_load import Load
from tests.support.sharded_cells import CELLS, Cluster, await_resized, running


@pytest.mark.feature("S2-11", "S2-12", "S2-17")
def test_resized_in_order_under_load_while_a_cell_is_killed(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        cluster.shard("orders", number=1, ordered_resize=True)
        load = Load([cluster.url], "orders")
        try:
            load.publish(10)
            load.await_published()
            cluster.policy("orders", 2, ordered_resize=True)  # with a backlog
            load.publish(10)
            load.await_published()
            load.publish(40)
            load.consume(2)
            load.order.await_number(3_000)
            kill_cell(cell_processes(cluster.broker)[-1])
            until(lambda: "cell is ready again" in cluster.broker.log())
            with clients_by_cell(cluster.url, *CELLS) as cluster.clients:
                cluster.policy("orders", 3, ordered_resize=True)
            load.consume(1)
            load.await_published()
            for publisher in load.publishers:
                publisher.finish()
            load.order.await_confirmed()
            await_resized(cluster, "orders")
        finally:
            load.stop()
        load.order.check()
        assert load.order.number == 3 * 40 * 60


@pytest.mark.feature("S2-13")
def test_a_cell_is_removed_in_order_under_load(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        cluster.shard("orders", number=2, ordered_resize=True)
        load = Load([cluster.url], "orders")
        try:
            load.consume(2)
            load.publish(30)
            load.order.await_number(1_000)
            assert cluster.api.delete("cells/c3")[0] == 204
            until(lambda: "cell removed" in cluster.broker.log(), 60)
            load.await_published()
            for publisher in load.publishers:
                publisher.finish()
            load.order.await_confirmed()
        finally:
            load.stop()
        load.order.check()
        assert load.order.number == 3 * 40 * 30
        assert not any("hare-c3" in shard for shard in cluster.bindings("orders"))


@pytest.mark.feature("S2-11", "S2-12")
def test_a_cell_is_added_in_order_under_load(tmp_path: Path) -> None:
    """Clients stay connected."""
    with running(tmp_path, 2) as cluster:
        assert cluster.api.put("exchanges/%2F/orders", {"type": "x-modulus-hash", "durable": True})[0] == 201
        cluster.policy("orders", 2, cells=2, ordered_resize=True)
        load = Load([cluster.url], "orders", cells=CELLS[:2])
        try:
            load.consume(2)
            load.publish(100_000)
            load.order.await_number(500)
            assert cluster.api.post("cells", {}) == (201, {"name": "c3"})
            until(lambda: len(cluster.bindings("orders")) == 6)
            load.consume(2, cells=("c3",))
            await_resized(cluster, "orders")
            load.order.await_number(load.order.number + 500)
            for publisher in load.publishers:
                publisher.end_early()
            load.order.await_confirmed()
        finally:
            load.stop()
        load.order.check()
        assert load.order.number == sum(load.order.confirmed.values())
        assert [publisher.reconnects for publisher in load.publishers] == [0, 0]


def test_without_ordered_resize_the_check_of_the_order_fails(tmp_path: Path) -> None:
    """The same load, so the check above can fail."""
    with running(tmp_path) as cluster:
        resize_without_order(cluster)


def resize_without_order(cluster: Cluster) -> None:
    cluster.shard("unordered", number=1)
    load = Load([cluster.url], "unordered")
    try:
        load.publish(10)
        load.await_published()
        cluster.policy("unordered", 2)
        load.publish(10)
        load.await_published()
        load.consume(2)
        load.order.await_confirmed()
    finally:
        load.stop()
    assert not load.order.missing()
    assert load.order.violations
