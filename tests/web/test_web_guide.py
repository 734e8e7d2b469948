"""The guide in the management UI: every page is shown, without remains of Markdown, and its links lead somewhere."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.guide_pages import PAGES, blocks
from tests.support.web_page import Complaints, LogIn


def shown(page: Page, address: str) -> str:
    """The heading of the page, once it is there."""
    page.goto(f"/{address}")
    heading = page.locator("article.guide h1")
    heading.wait_for()
    return heading.inner_text()


def test_every_page_is_shown_and_links_to_pages_and_sections_that_exist(log_in: LogIn) -> None:
    page = log_in(address="/#/docs")
    sections: dict[str, set[str]] = {}
    links: set[str] = set()
    for name, path in PAGES.items():
        page.goto("about:blank")
        text = path.read_text(encoding="utf-8")
        assert shown(page, "#/docs" if name == "README" else f"#/docs/{name}") == re.findall("^# (.+)$", text, re.M)[0]
        article = page.locator("article.guide")
        assert article.locator("pre").count() == len(re.findall(r"^ *```\w*$", text, re.MULTILINE)) / 2
        assert article.locator("table").count() == len(re.findall(r"^\|[-| :]*-[-| :]*\|$", text, re.MULTILINE))
        prose = article.evaluate(
            "all => { const copy = all.cloneNode(true);"
            " copy.querySelectorAll('pre, code').forEach((one) => one.remove()); return copy.textContent; }"
        )
        assert re.findall(r"\]\(|\*\*|`|^#+ |\|", prose, re.MULTILINE) == [], name
        sections[name] = set(article.locator(":is(h1, h2, h3, h4)").evaluate_all("all => all.map((one) => one.id)"))
        links |= set(article.locator("a[href^='#']").evaluate_all("all => all.map((one) => one.getAttribute('href'))"))
    assert len(links) > 100
    for link in links:
        address, _, section = link.partition("?section=")
        name = address.removeprefix("#/docs").removeprefix("/") or "README"
        assert name in sections, link
        assert not section or section in sections[name], link


def test_a_section_is_scrolled_into_view_and_the_help_leads_to_the_guide(log_in: LogIn) -> None:
    page = log_in()
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_role("link", name="Guide").click()
    expect(page.get_by_role("heading", level=1, name="Guide")).to_be_visible()
    page.locator("article.guide").get_by_role("link", name="Backup").first.click()
    expect(page.get_by_role("heading", level=1, name="Backup")).to_be_visible()
    assert shown(page, "#/docs/backup?section=dump") == "Backup, restore, check"
    expect(page.get_by_role("heading", level=2, name="Dump")).to_be_in_viewport()
    assert page.locator("article.guide pre").all_inner_texts() == [
        block.text.removesuffix("\n") for block in blocks(PAGES["backup"])
    ]


@pytest.mark.parametrize("name", ["none", "..%2F..%2FREADME"])
def test_a_page_that_does_not_exist_is_an_error_with_a_remedy(log_in: LogIn, complaints: Complaints, name: str) -> None:
    complaints.expect("404")
    page = log_in(address=f"/#/docs/{name}")
    expect(page.get_by_role("alert")).to_contain_text("Open the guide's list of pages")
