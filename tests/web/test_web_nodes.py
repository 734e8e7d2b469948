"""The page of nodes: a cell, its take-overs and hand-over; or the single node."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

import leveret
from leveret.cluster.cell_summary import CellSummary, MemberSummary
from tests.support.still_cell import StillCell
from tests.support.web_page import LogIn, Picture, does_not_fit

CANARY = "<img src=x onerror=\"alert('canary')\">"


@pytest.mark.feature("S4-78")
def test_the_cell_is_shown_with_roles_lag_and_take_overs(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    cell = StillCell(broker)
    b = cell.now.members[1]
    cell.now = cell.now._replace(members=(cell.now.members[0], b._replace(version=CANARY), cell.now.members[2]))
    page = log_in(address="/#/nodes")
    members = page.get_by_role("region", name="members").locator(".rows tr")
    expect(members).to_have_count(3)
    expect(members.nth(0)).to_contain_text("leader")
    expect(members.nth(1)).to_contain_text("standby")
    expect(members.nth(1)).to_contain_text("250 ms")
    expect(members.nth(1)).to_contain_text("4.0 KiB")
    expect(members.nth(1)).to_contain_text(CANARY)
    expect(members.nth(1)).to_contain_text("amqp://b.example:5672")
    expect(members.nth(2)).to_contain_text("down")
    servers = page.get_by_role("region", name="engine servers").locator(".rows tr")
    expect(servers.nth(0)).to_contain_text("stream leader")
    expect(servers.nth(2)).to_contain_text("unreachable")
    taken = page.get_by_role("region", name="take-overs").locator(".rows tr")
    expect(taken.nth(0)).to_contain_text("leader's process ended")
    expect(taken.nth(0)).to_contain_text("610 ms")
    tiles = page.locator(".tiles")
    expect(tiles).to_contain_text("orders")
    expect(tiles).to_contain_text("Epoch4")
    expect(page.get_by_text("The replicated log has 100 records, 1.0 MiB of at most 1.0 GiB")).to_be_visible()
    expect(tiles).to_contain_text("2 of 3")
    expect(page.locator(".findings")).to_contain_text("The cell may not survive another failure")
    expect(page.locator(".findings")).to_contain_text("c: its disk is full")
    picture("nodes")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)


@pytest.mark.feature("S4-78")
def test_an_administrator_hands_over_after_a_confirmation(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    cell = StillCell(broker)
    page = log_in(address="/#/nodes")
    expect(page.get_by_role("button", name="Hand over to")).to_have_count(1)
    page.get_by_role("button", name="Hand over to b").click()
    question = page.get_by_role("dialog", name="Hand over to b")
    expect(question).to_contain_text("Clients are disconnected once and reconnect")
    picture("nodes-hand-over")
    assert cell.asked == []
    question.get_by_role("button", name="Hand over", exact=True).click()
    expect(page.get_by_text("Node b takes over.")).to_be_visible()
    assert cell.asked == ["b"]


def test_a_hand_over_that_is_refused_is_told_in_the_dialog(
    broker: leveret.Broker, log_in: LogIn, complaints: list[str]
) -> None:
    cell = StillCell(broker)
    members = [each._replace(node="d") if each.node == "b" else each for each in cell.now.members]
    cell.now = cell.now._replace(members=tuple(members))
    page = log_in(address="/#/nodes")
    page.get_by_role("button", name="Hand over to d").click()
    page.get_by_role("dialog").get_by_role("button", name="Hand over", exact=True).click()
    expect(page.get_by_role("dialog")).to_contain_text("node 'd' cannot take over")
    assert cell.asked == []
    complaints[:] = [each for each in complaints if "409" not in each]


def test_an_engine_that_does_not_answer_is_an_alert(broker: leveret.Broker, log_in: LogIn) -> None:
    cell = StillCell(broker)
    cell.now = cell.now._replace(is_answering=False)
    page = log_in(address="/#/nodes")
    expect(page.get_by_role("alert").filter(has_text="Engine not answering")).to_be_visible()


def test_users_without_the_tag_administrator_cannot_hand_over(
    broker: leveret.Broker, page: Page, log_in: LogIn
) -> None:
    StillCell(broker)
    for name, tag in (("max", "monitoring"), ("anna", "management")):
        broker.call(lambda name=name, tag=tag: broker.node.broker.users.add(name, password="secret", tags=(tag,)))
    log_in("max", "secret", "/#/nodes")
    expect(page.get_by_role("region", name="members").locator(".rows tr")).to_have_count(3)
    expect(page.get_by_role("button", name="Hand over to")).to_have_count(0)
    page.get_by_role("button", name="Log out").click()
    log_in("anna", "secret", "/#/nodes")
    expect(page.get_by_text("Shown to users with the tag monitoring or administrator.")).to_be_visible()


@pytest.fixture
def two_cells(broker: leveret.Broker, page: Page) -> StillCell:
    """The cell of the broker, and c2, which ``b`` leads; the nodes are as the relay of several cells lists them."""
    cell = StillCell(broker)
    own = cell.now.leader
    members = (MemberSummary("b", "leader", True, True, 0, 0.0), MemberSummary(own, "standby", True, True, 7, 0.5))
    cell.others = [CellSummary("c2", "b", 9, members), CellSummary("c3", problem="no node leads this cell")]
    roles = {own: ("leader", "standby"), "b": ("standby", "leader")}

    def nodes(route: Route) -> None:
        (row, *_) = route.fetch().json()
        listed = [
            row | {"name": name, "cells": [{"cell": "orders", "role": first}, {"cell": "c2", "role": second}]}
            for name, (first, second) in roles.items()
        ]
        idle = {"name": "c", "running": False, "role": "down", "cells": [{"cell": "orders", "role": "down"}]}
        route.fulfill(json=[*listed, idle])

    page.route("**/api/nodes", nodes)
    return cell


@pytest.mark.feature("S4-78")
def test_several_replicated_cells_are_shown_with_roles_engine_and_nodes(
    two_cells: StillCell, log_in: LogIn, picture: Picture
) -> None:
    page = log_in(address="/#/nodes")
    members = page.get_by_role("region", name="members").locator(".rows tr")
    expect(members).to_have_count(6)
    expect(members.nth(0)).to_contain_text(two_cells.now.leader)
    expect(members.nth(3)).to_contain_text("leader")
    expect(members.nth(4)).to_contain_text("500 ms")
    expect(members.nth(5)).to_contain_text("no leader")
    expect(page.get_by_role("region", name="engine servers").locator(".rows tr").nth(2)).to_contain_text("unreachable")
    expect(page.get_by_role("region", name="take-overs").locator(".rows tr")).to_have_count(2)
    expect(page.locator(".tiles")).to_contain_text("Cells with a leader2 of 3")
    expect(page.locator(".findings")).to_contain_text("c3: no node leads this cell")
    expect(page.locator(".findings")).to_contain_text("c2: 2 of 2 members are up to date, 3 are needed")
    expect(page.get_by_role("region", name="b", exact=True)).to_contain_text("Leads c2")
    expect(page.get_by_role("region", name="b", exact=True)).to_contain_text("File descriptors")
    expect(page.get_by_role("region", name="c", exact=True)).to_contain_text("not responding")
    picture("nodes-of-cells")
    page.set_viewport_size({"width": 360, "height": 740})
    assert not does_not_fit(page)


@pytest.mark.feature("S4-78")
def test_one_of_several_cells_is_handed_over(two_cells: StillCell, log_in: LogIn) -> None:
    page = log_in(address="/#/nodes")
    title = f"Hand over c2 to {two_cells.now.leader}"
    page.get_by_role("button", name=title).click()
    question = page.get_by_role("dialog", name=title)
    expect(question).to_contain_text("the leader of cell c2")
    expect(question).not_to_contain_text("log in again")
    question.get_by_role("button", name="Hand over", exact=True).click()
    expect(page.get_by_text(f"Node {two_cells.now.leader} takes over.")).to_be_visible()
    assert (two_cells.moved, two_cells.asked) == ([("c2", two_cells.now.leader)], [])


def test_a_single_node_is_shown_with_its_resources(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/nodes")
    expect(page.locator(".card.node")).to_contain_text(broker.node.broker.node_name)
    expect(page.locator(".card.node")).to_contain_text("Memory")
    expect(page.get_by_role("heading", name="This broker is a single node")).to_be_visible()
    picture("nodes-single")
