"""Login and logout."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

import leveret
from leveret.http.sessions import IDLE
from tests.support.web_page import Complaints, LogIn, Picture, settle, stand_still


@pytest.mark.feature("S4-78")
def test_a_user_logs_in_and_lands_where_it_wanted(log_in: LogIn, picture: Picture) -> None:
    page = log_in(address="/#/queues")
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    page.reload()  # the session goes on
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_label("Password")).to_be_visible()
    picture("login")
    page.reload()
    expect(page.get_by_label("Password")).to_be_visible()


def test_a_wrong_password_is_told_and_may_be_typed_again(page: Page, complaints: Complaints) -> None:
    complaints.expect("401")
    page.goto("/")
    page.get_by_label("User name").fill("guest")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert").locator("strong")).to_have_text("Login failed")
    expect(page.get_by_role("alert").locator("p")).to_have_text("invalid credentials")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_no_script_can_read_the_cookie(log_in: LogIn) -> None:
    page = log_in()
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert cookie["httpOnly"]
    assert cookie["sameSite"] == "Strict"


def test_an_ended_session_asks_for_the_password_and_goes_on(
    page: Page, log_in: LogIn, broker: leveret.Broker, complaints: Complaints
) -> None:
    complaints.expect("401")
    stand_still(page)
    log_in(address="/#/queues")
    expect(page.get_by_role("heading", name="No queues yet")).to_be_visible()
    settle(page)
    broker.clock.advance(IDLE)
    page.clock.run_for(5_000)
    expect(page.get_by_text("Your session has expired")).to_be_visible()
    page.get_by_label("User name").fill("guest")
    page.get_by_label("Password").fill("guest")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Queues", exact=True)).to_be_visible()


def test_light_and_dark_can_be_chosen_and_stay(log_in: LogIn) -> None:
    page = log_in()
    ground = "getComputedStyle(document.body).backgroundColor"
    page.emulate_media(color_scheme="light")
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(ground)
    assert light != dark
    page.get_by_title("Switch between light and dark theme").click()
    assert page.evaluate(ground) == light
    page.reload()
    expect(page.get_by_title("Switch between light and dark theme")).to_have_text("◐ Light")
    assert page.evaluate(ground) == light


def test_a_dialogue_does_not_lie_over_the_login(
    page: Page, log_in: LogIn, broker: leveret.Broker, complaints: Complaints
) -> None:
    complaints.expect("401")
    broker.vhost().declare_queue("orders")
    stand_still(page)
    log_in(address="/#/queues/%2F/orders")
    page.get_by_role("button", name="Publish message …").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    settle(page)
    broker.clock.advance(IDLE)
    page.clock.run_for(5_000)
    expect(page.get_by_text("Your session has expired")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_label("User name").fill("guest")
