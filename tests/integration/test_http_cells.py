"""The endpoints for cells and moves of queues: roles, permissions, refusals."""

from __future__ import annotations

import pytest

import leveret
from tests.support.fake_cells import FakeCells
from tests.support.management_api import as_guest, as_user

pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture(autouse=True)
def orders(broker: leveret.Broker) -> None:
    broker.vhost().declare_queue("orders", durable=True)


@pytest.fixture
def cells(broker: leveret.Broker) -> FakeCells:
    fake, broker_cells = FakeCells(), broker.node.broker.cells
    broker_cells.queue_moves = broker_cells.removals = fake  # type: ignore[assignment]
    return fake


def test_a_move_is_begun_and_followed(broker: leveret.Broker, cells: FakeCells) -> None:
    api = as_guest(broker)
    assert api.post("queues/%2F/orders/move", {"to": "c2"}) == (202, {"id": "1"})
    row = api.get("queue-moves/1")[1]
    assert (row["queue"], row["source"], row["to"], row["state"]) == ("orders", "c1", "c2", "copying")
    cells.finish()
    assert [row["state"] for row in api.get("queue-moves")[1]] == ["done"]
    assert api.get("queues/%2F/orders")[1]["home"] == "c2"
    assert api.put("queues/%2F/orders/move", {"to": "c3"})[0] == 202


def test_refusals_have_their_reason(broker: leveret.Broker, cells: FakeCells) -> None:
    api = as_guest(broker)
    for path, value, status, reason in [
        ("queues/%2F/orders/move", {"to": "c1"}, 400, "is in cell c1 already"),
        ("queues/%2F/orders/move", {"to": "c9"}, 404, "no cell 'c9'"),
        ("queues/%2F/orders/move", {}, 400, "'to'"),
        ("queues/%2F/none/move", {"to": "c2"}, 404, "none"),
    ]:
        found, answer = api.post(path, value)
        assert (found, reason in answer["reason"]) == (status, True), answer
    assert api.get("queue-moves/9")[0] == 404


def test_roles_and_permissions_are_checked(broker: leveret.Broker, cells: FakeCells) -> None:
    viewer = as_user(broker, "vera", "management", vhosts=("/",))
    assert viewer.post("queues/%2F/orders/move", {"to": "c2"})[0] == 403
    assert viewer.get("queue-moves") == (200, [])
    assert viewer.get("queue-moves/proposals")[0] == viewer.get("cells")[0] == viewer.delete("cells/c2")[0] == 403
    maker = as_user(broker, "paul", "policymaker", vhosts=("/",))
    assert maker.get("queue-moves/proposals")[1][0]["to"] == "c2"
    assert maker.delete("cells/c2")[0] == 403
    broker.call(lambda: broker.node.broker.permissions.set("paul", "/", "none", ".*", ".*"))
    assert maker.post("queues/%2F/orders/move", {"to": "c2"})[0] == 403
    broker.call(lambda: broker.node.broker.permissions.set("paul", "/", "orders", "", ""))
    assert maker.post("queues/%2F/orders/move", {"to": "c2"})[0] == 202


def test_queues_of_a_virtual_host_in_one_cell_cannot_be_moved(broker: leveret.Broker, cells: FakeCells) -> None:
    broker.call(lambda: broker.node.broker.vhost("/").live_in("c1"))
    api = as_guest(broker)
    assert api.get("queues/%2F/orders")[1]["home"] is None
    status, answer = api.post("queues/%2F/orders/move", {"to": "c2"})
    assert (status, "its queues cannot be moved" in answer["reason"]) == (400, True)


def test_a_cell_is_removed_and_kept(broker: leveret.Broker, cells: FakeCells) -> None:
    api = as_guest(broker)
    assert api.delete("cells/c3")[0] == 204
    assert [row["state"] for row in api.get("cells")[1]] == ["running", "running", "leaving"]
    assert api.post("cells/c3/keep", {})[0] == 204
    assert cells.left == []


def test_a_broker_with_one_cell_has_none_of_it(broker: leveret.Broker) -> None:
    api = as_guest(broker)
    assert api.get("queues/%2F/orders")[1]["home"] is None
    for found in (api.get("cells"), api.get("queue-moves"), api.post("queues/%2F/orders/move", {"to": "c2"})):
        assert (found[0], "this broker is the only cell" in found[1]["reason"]) == (404, True)
