"""The admin pages for policies and definitions."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

import leveret
from leveret.broker.policy import Policy
from tests.support.web_forms import fill, operator_policy, press, without_notices
from tests.support.web_page import Complaints, LogIn, Picture


def policy_of(broker: leveret.Broker, name: str) -> Policy:
    found = broker.call(lambda: broker.node.broker.vhosts["/"].policies.get(name, False))
    assert found is not None
    return found


# ---- policies


@pytest.mark.feature("S2-28")
def test_a_policy_is_written_and_explained(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, complaints: Complaints
) -> None:
    complaints.expect("400")
    vhost = broker.vhost()
    for name in ("orders.eu", "orders.us", "mails"):
        vhost.declare_queue(name)
    operator_policy(broker, "cap", {"max-length": 50})
    page = log_in(address="/#/admin/policies")
    expect(page.get_by_text("No policies yet.")).to_be_visible()
    page.get_by_role("link", name="Add policy").click()
    expect(page.locator(".matches")).to_contain_text("3 queues")
    fill(page, Pattern="^orders", Name="short", Priority="3")
    expect(page.locator(".matches")).to_contain_text("2 queues")
    expect(page.locator(".matches")).to_contain_text("orders.us")
    fill(page, Key="max-length", Value="100")
    assert page.locator("#policy-keys option[value='dead-letter-exchange']").count() == 1
    press(page, "Add key")
    page.get_by_label("Key", exact=True).nth(1).fill("dead-letter-routing-key")
    page.get_by_label("Value").nth(1).fill("7")  # a text, though it looks like a number
    press(page, "Add policy")
    expect(page.get_by_text("Policy short saved.")).to_be_visible()
    expect(page.get_by_role("heading", name="short")).to_be_visible()
    policy = policy_of(broker, "short")
    assert (policy.priority, policy.apply_to, policy.pattern) == (3, "queues", "^orders")
    assert policy.definition == {"max-length": 100, "dead-letter-routing-key": "7"}
    expect(page.get_by_label("Value").nth(1)).to_have_value("7")

    page.get_by_label("Value").first.fill("lots")
    press(page, "Save changes")
    expect(page.get_by_role("alert")).to_contain_text("policy key 'max-length': 'lots' is not a whole number")
    page.get_by_label("Value").first.fill("20")
    page.get_by_role("button", name="Remove this key").nth(1).click()
    press(page, "Save changes")
    expect(page.get_by_text("Policy short saved.").nth(1)).to_be_visible()
    assert policy_of(broker, "short").definition == {"max-length": 20}
    without_notices(page)
    picture("admin-policy")

    page.get_by_role("link", name="Policies").click()
    expect(page.get_by_role("region", name="policies", exact=True)).to_contain_text("max-length=20")
    effective = page.locator(".effective-policy")
    fill(effective, Name="orders.eu")
    press(effective, "Show effective policy")
    expect(effective.locator(".holds").first).to_contain_text("20")
    expect(effective.locator(".lost")).to_contain_text("operator policy cap")
    without_notices(page)
    picture("admin-policies")
    effective.locator(".lost").get_by_role("link", name="operator policy cap").click()
    expect(page.get_by_label(re.compile("^Pattern"))).to_have_value(".*")


# ---- definitions

SLOW_FILES = """() => {
    const text = Blob.prototype.text;
    Blob.prototype.text = async function () {
        await new Promise((done) => setTimeout(done, 300));
        return text.call(this);
    };
}"""


@pytest.mark.feature("S4-77")
def test_definitions_are_looked_at_before_they_are_taken(
    broker: leveret.Broker, log_in: LogIn, picture: Picture, tmp_path: Path
) -> None:
    core = broker.node.broker
    broker.vhost().declare_queue("there", durable=True)
    page = log_in(address="/#/admin/definitions")
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    exported: dict[str, Any] = json.loads(Path(started.value.path()).read_text())
    assert [queue["name"] for queue in exported["queues"]] == ["there"]

    queue = {"durable": True, "auto_delete": False, "arguments": {}, "vhost": "/"}
    bad = {"queues": [{"name": "new", **queue}, {**queue, "name": "lost", "vhost": "nowhere"}], "strange": []}
    fill(page, Or_paste_JSON=json.dumps(bad))
    press(page, "Preview import")
    expect(page.locator(".report .problem")).to_contain_text("vhost 'nowhere' not found")
    expect(page.locator(".report")).to_contain_text("Leveret does not support it: strange.")
    expect(page.get_by_text("1 entry will be left out, 1 change will be made.")).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("^Import [0-9]"))).to_have_count(0)
    without_notices(page)
    picture("admin-definitions")
    press(page, "Import the rest")
    expect(page.get_by_text("Definitions imported without 1 entry.")).to_be_visible()
    expect(page.locator(".report")).to_contain_text("Import report")
    expect(page.locator(".report .tile").filter(has_text="Left out")).to_have_text("Left out1")
    expect(page.locator(".report .problem")).to_contain_text("queues lost in nowhere: vhost 'nowhere' not found")
    assert "new" in core.vhosts["/"].queues
    press(page, "Preview import")  # the same file again
    expect(page.get_by_text("All other entries in the file exist already")).to_be_visible()
    without_notices(page)

    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [{"name": "newer", **queue}, {"name": "there", **queue}]}))
    page.evaluate(SLOW_FILES)  # the preview is asked for before the file is read
    page.get_by_label("File", exact=True).set_input_files(file)
    expect(page.locator(".report")).to_be_empty()
    press(page, "Preview import")
    page.get_by_text("Show 1 change").click()
    expect(page.locator(".report .rows tr")).to_contain_text("newer")
    assert "newer" not in core.vhosts["/"].queues
    press(page, "Import 1 change")
    expect(page.get_by_text("Definitions imported.")).to_be_visible()
    assert "newer" in core.vhosts["/"].queues
    fill(page, Or_paste_JSON="{")
    press(page, "Preview import")
    expect(page.get_by_role("alert")).to_contain_text("The definitions are not valid JSON")
