"""The admin pages: actions on them change the broker."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, Route, expect

import leveret
from leveret.auth.users import User
from tests.support.web_forms import fill, operator_policy, press, without_notices
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
FOUND = "document.querySelectorAll('#app img, #app script, #app b b, dialog img, #notices img').length"


def add_user(broker: leveret.Broker, name: str, *tags: str, **patterns: str) -> None:
    """``patterns``: its permissions in the virtual host /; without any it has none."""
    core = broker.node.broker

    def add() -> None:
        core.users.add(name, password="secret", tags=tags)
        if patterns:
            core.permissions.set(name, "/", *(patterns.get(kind, "") for kind in ("configure", "write", "read")))

    broker.call(add)


def user_of(broker: leveret.Broker, name: str) -> User:
    found = broker.call(lambda: broker.node.broker.users.get(name))
    assert found is not None
    return found


# ---- users


@pytest.mark.feature("S4-78")
def test_a_user_is_made_and_given_permissions(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    core = broker.node.broker
    broker.vhost().declare_exchange("shop", "topic")
    page = log_in()
    page.get_by_role("link", name="Admin").click()
    press(page, "Add user")
    fill(page, User_name="anna", Password="secret", Other_tags="team-a")
    page.get_by_label("management: uses").check()
    press(page.get_by_role("dialog"), "Add user")
    expect(page.get_by_role("heading", name="anna")).to_be_visible()
    expect(page.get_by_text("No permissions: this user")).to_be_visible()
    assert set(user_of(broker, "anna").tags) == {"management", "team-a"}

    press(page, "Set permissions …")
    fill(page.get_by_role("dialog"), configure="", write="^shop$", read="^orders")
    press(page.get_by_role("dialog"), "Set permissions")
    expect(page.get_by_role("region", name="permissions", exact=True)).to_contain_text("^orders")
    rule = broker.call(lambda: core.permissions.get("anna", "/"))
    assert rule is not None
    assert (rule.configure, rule.write, rule.read) == ("", "^shop$", "^orders")
    press(page, "/")  # once more, from the list
    expect(page.get_by_role("dialog").get_by_label("write")).to_have_value("^shop$")
    fill(page.get_by_role("dialog"), read="^orders|^bills")
    press(page.get_by_role("dialog"), "Set permissions")
    expect(page.get_by_role("region", name="permissions", exact=True)).to_contain_text("^orders|^bills")

    press(page, "Set topic permissions …")
    fill(page.get_by_role("dialog"), Topic_exchange="shop", write=r"^order\.")
    press(page.get_by_role("dialog"), "Set topic permissions")
    expect(page.get_by_role("region", name="topic permissions")).to_contain_text(r"^order\.")

    fill(page, Connections="5")
    press(page, "Set limits")
    expect(page.get_by_text("Limits of anna updated.")).to_be_visible()
    assert user_of(broker, "anna").max_connections == 5
    page.get_by_label("Operation").select_option("publish")
    fill(page, Exchange="shop", Routing_key="bill.1")
    press(page, "Check")
    expect(page.locator(".check-result.no")).to_contain_text(r"topic write '^order\.' does not match key 'bill.1'")
    expect(page.locator(".check-result .passed")).to_have_count(2)
    fill(page, Routing_key="order.1")
    press(page, "Check")
    expect(page.locator(".check-result.yes")).to_contain_text("Allowed.")
    without_notices(page)
    picture("admin-user")


@pytest.mark.feature("S4-78")
def test_tags_and_passwords_are_changed_alone(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    core = broker.node.broker
    add_user(broker, "anna", "management", "own", configure=".*")
    add_user(broker, "idle")
    broker.call(lambda: core.users.set_limits("anna", max_connections=3, max_channels=None))
    page = log_in(address="/#/admin")
    expect(page.locator(".rows tr").filter(has_text="idle")).to_contain_text("no permissions")
    expect(page.locator(".rows tr").filter(has_text="anna")).not_to_contain_text("no permissions")
    without_notices(page)
    picture("admin-users")
    press(page, "Add user")
    fill(page, User_name="anna")
    press(page.get_by_role("dialog"), "Add user")
    expect(page.get_by_role("alert")).to_contain_text("User anna already exists")
    page.keyboard.press("Escape")

    page.get_by_role("link", name="anna").click()
    press(page, "Change password …")
    fill(page, New_password="better")
    press(page.get_by_role("dialog"), "Change password")
    expect(page.get_by_text("Password of user anna changed.")).to_be_visible()
    press(page, "Change tags …")
    expect(page.get_by_label("Other tags")).to_have_value("own")
    page.get_by_label("policymaker: manages").check()
    page.get_by_label("impersonator: publishes").check()
    press(page.get_by_role("dialog"), "Change tags")
    expect(page.locator(".badges")).to_contain_text("policymaker")
    anna = user_of(broker, "anna")
    assert set(anna.tags) == {"management", "own", "policymaker", "impersonator"}
    assert anna.max_connections == 3
    assert core.users.authenticate("anna", "better", 0.0) is not None
    assert core.users.authenticate("anna", "secret", 0.0) is None


@pytest.mark.feature("S4-78")
def test_what_is_deleted_waits_for_an_undo(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    core = broker.node.broker
    add_user(broker, "anna", configure=".*")
    broker.call(lambda: core.permissions.set_topic("anna", "/", "amq.topic", "a", "b"))
    broker.vhost().set_policy("short", ".*", {"max-length": 1})
    stand_still(page)
    log_in(address="/#/admin/users/guest")
    expect(page.get_by_role("button", name="Delete user")).to_be_disabled()  # users cannot delete themselves
    page.goto("/#/admin/users/anna")
    press(page, "Clear vhost")
    page.clock.run_for(5_100)
    expect(page.get_by_text("Topic permissions of user anna in / cleared: it may use any routing key.")).to_be_visible()
    assert broker.call(core.permissions.list_topic) == ()
    press(page, "Clear")
    press(page, "Undo")
    page.clock.run_for(6_000)
    assert broker.call(lambda: core.permissions.permits_entry("anna", "/"))
    press(page, "Clear")
    page.clock.run_for(5_100)
    expect(page.get_by_text("No permissions: this user")).to_be_visible()
    assert not broker.call(lambda: core.permissions.permits_entry("anna", "/"))
    press(page, "Delete user")
    page.clock.run_for(5_100)
    expect(page.get_by_role("heading", name="Users")).to_be_visible()
    assert "anna" not in core.users
    page.goto("/#/admin/policies/policy/%2F/short")
    press(page, "Delete policy")
    page.clock.run_for(5_100)
    expect(page.get_by_text("No policies yet.")).to_be_visible()
    assert broker.call(lambda: core.vhosts["/"].policies.get("short", False)) is None


# ---- virtual hosts, limits


@pytest.mark.feature("S4-78")
def test_a_virtual_host_from_its_creation_to_its_end(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    core = broker.node.broker
    page = log_in(address="/#/admin/vhosts")
    press(page, "Add virtual host")
    fill(page, Name="shop/eu", Description="orders of Europe", Tags="live")
    press(page.get_by_role("dialog"), "Add virtual host")
    expect(page.get_by_role("heading", name="shop/eu")).to_be_visible()
    expect(page.get_by_text("orders of Europe")).to_be_visible()
    expect(page.get_by_role("region", name="permissions")).to_contain_text("guest")
    fill(page, Queues="10")
    press(page, "Set limits")
    expect(page.get_by_text("Limits of shop/eu updated.")).to_be_visible()
    assert broker.call(lambda: core.vhosts["shop/eu"].max_queues) == 10
    press(page, "Edit …")
    fill(page.get_by_role("dialog"), Description="all orders")
    press(page, "Save changes")
    expect(page.get_by_text("all orders")).to_be_visible()
    expect(page.locator(".badges")).to_have_text("live")
    without_notices(page)
    picture("admin-vhost")

    page.get_by_role("link", name="Limits").click()
    row = page.locator(".rows tr")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("10")
    press(page, "Set limits …")
    dialogue = page.get_by_role("dialog")
    dialogue.get_by_label("Apply to").select_option("user")
    fill(dialogue, User="guest")
    page.keyboard.press("Tab")
    fill(dialogue, Channels="7")
    press(dialogue, "Set limits")
    expect(row).to_have_count(2)
    assert user_of(broker, "guest").max_channels == 7
    without_notices(page)
    picture("admin-limits")

    row.get_by_role("link", name="shop/eu").click()
    press(page, "Delete virtual host …")
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete virtual host")).to_be_disabled()
    fill(page, Virtual_host_name="shop/e")
    expect(page.get_by_role("dialog").get_by_role("button", name="Delete virtual host")).to_be_disabled()
    fill(page, Virtual_host_name="shop/eu")
    press(page.get_by_role("dialog"), "Delete virtual host")
    expect(page.get_by_role("heading", name="Virtual hosts")).to_be_visible()
    assert "shop/eu" not in core.vhosts


# ---- for others


@pytest.mark.feature("S4-72")
def test_everybody_finds_what_the_tags_allow(broker: leveret.Broker, log_in: LogIn, page: Page) -> None:
    add_user(broker, "maker", "policymaker", read="^orders")
    broker.vhost().set_policy("short", ".*", {"max-length": 1})
    operator_policy(broker, "cap", {"max-length": 50})
    log_in("maker", "secret", "/#/admin")
    expect(page.get_by_role("heading", name="Policies", exact=True)).to_be_visible()
    expect(page.get_by_role("link", name="Add policy")).to_be_visible()
    expect(page.get_by_role("link", name="Add operator policy")).to_have_count(0)
    tabs = page.get_by_role("navigation", name="Admin")
    expect(tabs.get_by_role("link")).to_have_text(["Virtual hosts", "Permission check", "Policies", "Limits"])
    page.get_by_role("link", name="cap").click()
    expect(page.get_by_label(re.compile("^Pattern"))).to_be_disabled()
    expect(page.get_by_role("button", name="Save")).to_have_count(0)
    for address in ("users", "users/guest", "definitions"):
        page.goto(f"/#/admin/{address}")
        expect(page.get_by_text("are available to administrators only")).to_be_visible()
    tabs.get_by_role("link", name="Permission check").click()
    page.get_by_label("Operation").select_option("consume")
    fill(page, Queue="orders")
    press(page, "Check")
    expect(page.locator(".check-result.yes")).to_contain_text("user 'maker' may consume: 'orders'")
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search").fill("short")
    expect(page.get_by_role("option", name="short policy in /")).to_be_visible()


def test_ctrl_k_leads_to_users_virtual_hosts_and_policies(broker: leveret.Broker, log_in: LogIn) -> None:
    core = broker.node.broker
    add_user(broker, "blue-user")
    broker.call(lambda: core.add_vhost("blue-vhost"))
    broker.vhost().set_policy("blue-policy", ".*", {"max-length": 1})
    operator_policy(broker, "blue-cap", {"max-length": 50})
    page = log_in()
    for name, hint in (
        ("blue-user", "user"),
        ("blue-vhost", "virtual host"),
        ("blue-policy", "policy in /"),
        ("blue-cap", "operator policy in /"),
    ):
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill(name)
        found = page.get_by_role("dialog").get_by_role("option", name=name)
        expect(found).to_contain_text(hint)
        found.click()
        expect(page.get_by_role("heading", name=name)).to_be_visible()


# ---- unusual names


def furnish_with_canaries(broker: leveret.Broker) -> None:
    core = broker.node.broker

    def furnish() -> None:
        core.users.add(CANARY, password="secret", tags=("administrator", CANARY), max_connections=9)
        core.users.add(f"{CANARY}2", password="secret", tags=(CANARY,))
        core.add_vhost(CANARY)
        core.limit_vhost(CANARY, max_queues=9, max_connections=None)
        core.permissions.set(CANARY, CANARY, "", "<b>", "<b>")
        core.permissions.set_topic(CANARY, CANARY, CANARY, "<b>", "<b>")
        core.policies.set(CANARY, CANARY, "<", {"dead-letter-exchange": CANARY}, apply_to="all", priority=1)

    broker.call(furnish)
    broker.vhost(CANARY).declare_exchange(CANARY, "topic")
    broker.vhost(CANARY).declare_queue(CANARY)


@pytest.mark.feature("S4-78")
def test_a_canary_in_every_field_shows_as_text_and_fits(
    broker: leveret.Broker, log_in: LogIn, complaints: Complaints
) -> None:
    furnish_with_canaries(broker)
    page = log_in(CANARY, "secret", "/#/admin")
    with page.expect_response(lambda answer: "/api/users/" in answer.url):
        page.get_by_role("link", name=CANARY, exact=True).click()
    encoded = page.evaluate("name => encodeURIComponent(name)", CANARY)
    described = page.request.put(
        f"/api/vhosts/{encoded}",
        data={"description": CANARY, "tags": [CANARY]},
        headers={"X-Requested-With": "test"},
    )
    assert described.status == 204
    addresses = ("users", f"users/{encoded}", "vhosts", f"vhosts/{encoded}", "limits", "policies")
    for address in (*addresses, f"policies/policy/{encoded}/{encoded}"):
        page.goto(f"/#/admin/{address}")
        if "policies/" in address:
            expect(page.get_by_label("Value")).to_have_value(CANARY)
            expect(page.locator(".matches")).to_contain_text(CANARY)
        expect(page.locator("main").get_by_text(CANARY).first).to_be_visible()
        for width in (360, 1600):
            page.set_viewport_size({"width": width, "height": 800})
            assert not does_not_fit(page), (address, width)
        assert page.evaluate(FOUND) == 0, address
    page.goto("/#/admin/access")
    page.get_by_label("Virtual host").select_option(CANARY)
    page.get_by_label("Operation").select_option("publish")
    fill(page, Exchange=CANARY, Routing_key=CANARY)
    press(page, "Check")
    expect(page.locator(".check-result")).to_contain_text(CANARY)
    page.goto("/#/admin/policies")
    page.locator(".effective-policy").get_by_label("Virtual host").select_option(CANARY)
    fill(page.locator(".effective-policy"), Name=CANARY)
    press(page, "Show effective policy")
    expect(page.locator(".explained")).to_contain_text(CANARY)
    page.goto("/#/admin/definitions")
    fill(
        page,
        Or_paste_JSON=json.dumps(
            {"vhosts": [{"name": f"{CANARY}3"}], "queues": [{"name": CANARY, "vhost": "x"}], CANARY: []}
        ),
    )
    press(page, "Preview import")
    expect(page.locator(".report .problem")).to_contain_text(CANARY)
    assert page.evaluate(FOUND) == 0
    assert complaints == []


# ---- what goes wrong


def test_what_cannot_be_described_is_told_and_limits_are_of_the_last_choice(
    broker: leveret.Broker, log_in: LogIn, page: Page, complaints: Complaints
) -> None:
    complaints.expect("500")
    core = broker.node.broker
    broker.call(lambda: core.add_vhost("shop"))
    broker.call(lambda: core.limit_vhost("/", max_queues=3, max_connections=None))
    stand_still(page)
    log_in(address="/#/admin/vhosts/%2F")
    expect(page.get_by_role("region", name="permissions")).to_contain_text("guest")
    page.route("**/api/vhosts/%2F", lambda route: route.fulfill(status=500, json={"reason": "out of order"}))
    press(page, "Edit …")
    expect(page.locator(".notice")).to_contain_text("out of order")
    expect(page.get_by_role("dialog")).to_have_count(0)

    page.goto("/#/admin/limits")
    expect(page.locator(".rows tr")).to_have_count(1)
    held: list[Route] = []
    page.route("**/api/vhost-limits", lambda route: route.continue_() if held else held.append(route))
    with page.expect_request("**/api/vhost-limits"):
        press(page, "Set limits …")
    box = page.get_by_role("dialog")
    chosen = box.get_by_label(re.compile("^Virtual host"))
    expect(chosen).to_have_value("/")
    chosen.select_option("shop")
    expect(box.get_by_label("Queues")).to_have_value("")
    with page.expect_response("**/api/vhost-limits"):
        held[0].continue_()  # the answer to the first choice comes last
    expect(box.get_by_label("Queues")).to_have_value("")
    page.route("**/api/user-limits", lambda route: route.fulfill(status=500, json={"reason": "out of order"}))
    chosen.select_option("/")
    expect(box.get_by_role("alert")).to_contain_text("out of order")
