"""Lists and dialogs of administration that show what RabbitMQ's show: one broker, one page."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.wire.properties import Properties
from tests.support.management_api import as_guest
from tests.support.web_forms import without_notices
from tests.support.web_page import LogIn, Picture, does_not_fit


def add_objects(broker: leveret.Broker) -> None:
    core = broker.node.broker
    core.add_vhost("shop")
    core.users.add("robot", tags=())


@pytest.mark.feature("S4-78")
def test_users_vhosts_and_policies(broker: leveret.Broker, log_in: LogIn, picture: Picture) -> None:
    broker.call(lambda: add_objects(broker))
    api = as_guest(broker)
    assert api.put("users/anna", {"password": "secret", "tags": ""})[0] == 201
    assert api.put("permissions/shop/anna", {"configure": "^mine", "write": ".*", "read": ".*"})[0] == 201
    page = log_in(address="/#/admin/users")
    for name, texts in {"anna": ("shop", "set"), "robot": ("no permissions", "none")}.items():
        for text in texts:
            expect(page.locator(".rows tr").filter(has_text=name)).to_contain_text(text)
    picture("admin-users-table")
    page.get_by_role("button", name="Add user").click()
    box = page.get_by_role("dialog")
    box.get_by_label("User name").fill("new")
    box.get_by_role("button", name="Generate").click()
    password = box.get_by_label("Password")
    expect(password).to_have_value(re.compile(r"^[A-Za-z0-9]{24}$"))
    expect(password).to_have_attribute("type", "text")
    picture("admin-user-new")
    box.get_by_role("button", name="Add user").click()
    expect(page.get_by_role("heading", name="new")).to_be_visible()

    page.set_viewport_size({"width": 390, "height": 800})
    page.goto("/#/admin/users/anna")
    expect(page.get_by_role("region", name="permissions").first).to_contain_text("^mine")
    expect(page.get_by_role("columnheader", name="Configure")).to_be_visible()
    without_notices(page)
    picture("admin-user-permissions")
    page.set_viewport_size({"width": 390, "height": 800})
    assert not does_not_fit(page)
    page.set_viewport_size({"width": 1440, "height": 900})

    page.goto("/#/admin/vhosts/shop")
    page.get_by_role("button", name="Edit …").click()
    box.get_by_label("Default queue type").select_option("quorum")
    box.get_by_role("button", name="Save changes").click()
    expect(page.locator(".badges")).to_contain_text("default queue type quorum")
    page.goto("/#/queues?vhost=shop")
    page.get_by_role("button", name="Add queue", exact=True).first.click()
    expect(box.get_by_label("Type")).to_have_value("quorum")
    page.keyboard.press("Escape")

    page.goto("/#/admin/policy")
    page.get_by_text("Known keys").click()
    page.get_by_role("button", name="message-ttl", exact=True).click()
    expect(page.get_by_label("Key", exact=True)).to_have_value("message-ttl")
    picture("admin-policy-keys")
    expect(page.locator(".meaning")).to_contain_text("Milliseconds after which a message in the queue expires.")


@pytest.mark.feature("S4-78")
def test_scheduled_bodies_streams_and_traces_are_at_hand(
    broker: leveret.Broker, log_in: LogIn, picture: Picture
) -> None:
    vhost = broker.vhost()
    vhost.declare_queue("events", durable=True, arguments={"x-queue-type": "stream"})
    due = int((broker.clock.core.wall() + 900) * 1000)
    vhost.publish("", "events", b'{"later": 1}', Properties(headers={"x-deliver-at": due}))
    page = log_in(address="/#/schedules")
    expect(page.locator(".rows code")).to_have_text('{"later": 1}')
    picture("schedules-body")
    menu = page.get_by_role("navigation", name="Pages")
    menu.get_by_role("link", name="Traces").click()
    expect(page.get_by_role("heading", name="Tracing is disabled for virtual host /")).to_be_visible()
    expect(menu.get_by_role("link", name="Traces")).to_have_attribute("aria-current", "page")

    page.goto("/#/streams/%2F/events")
    publish(page, "from its page")
    expect(page.locator("details.message")).to_contain_text("from its page")
    page.get_by_role("button", name="Delete stream …").click()
    page.get_by_role("dialog").get_by_label("Queue name").fill("events")
    page.get_by_role("dialog").get_by_role("button", name="Delete queue").click()
    expect(page.get_by_role("heading", level=1, name="Streams")).to_be_visible()
    assert broker.call(lambda: "events" not in broker.node.broker.vhosts["/"].queues)


def publish(page: Page, body: str) -> None:
    page.get_by_role("button", name="Publish message …").click()
    box = page.get_by_role("dialog")
    box.get_by_label("Body", exact=True).fill(body)
    box.get_by_role("button", name="Publish message").click()
    expect(page.get_by_text("Message published.")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Last", exact=True).click()
