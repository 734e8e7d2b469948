"""Connections: the list, one connection, one channel."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace

import pika
import pytest
from pika.adapters.blocking_connection import BlockingChannel
from pika.exceptions import ConnectionClosedByBroker
from playwright.sync_api import Browser, expect

import leveret
from tests.support.certificates import CertificateFiles
from tests.support.http_api import QUIET
from tests.support.management_api import as_guest
from tests.support.running_clients import client
from tests.support.web_forms import fill, press
from tests.support.web_page import Complaints, LogIn, Picture, does_not_fit, stand_still

CANARY = "<img src=x onerror=\"alert('canary')\"><b>&amp;"
INJECTED = "document.querySelectorAll('#app img, #app script, #app b b, #notices img, dialog img').length"


@pytest.fixture
def till(broker: leveret.Broker) -> Iterator[BlockingChannel]:
    """A client that holds two unacked messages and has a prefetch of seven."""
    vhost = broker.vhost()
    vhost.declare_queue("orders")
    with client(broker, "till 1") as channel:
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=7)
        channel.basic_consume("orders", lambda *delivered: None, consumer_tag="till-tag")
        for _ in range(2):
            channel.basic_publish("", "orders", b"x")
        yield channel


@pytest.mark.feature("S4-78")
def test_connections_are_listed_filtered_and_found(
    broker: leveret.Broker, log_in: LogIn, till: BlockingChannel, picture: Picture
) -> None:
    broker.call(lambda: broker.node.broker.users.add("ann", password="secret"))
    broker.call(lambda: broker.node.broker.permissions.set("ann", "/", ".*", ".*", ".*"))
    with ExitStack() as clients:
        for number in range(3):
            clients.enter_context(client(broker, f"printer {number}", "ann", "secret"))
        page = log_in(address="/#/connections")
        rows = page.locator(".rows tr")
        expect(rows).to_have_count(4)
        row = rows.filter(has_text="till 1")
        for text in ("guest", "127.0.0.1:", "running"):
            expect(row).to_contain_text(text)
        picture("connections")
        page.get_by_role("searchbox").fill("ann")
        expect(rows).to_have_count(3)
        stand_still(page)
        page.reload()  # the filter is in the URL and applies from the start
        expect(rows).to_have_count(3)
        page.clock.resume()
        page.get_by_role("searchbox").fill("TILL")
        expect(rows).to_have_count(1)
        page.keyboard.press("Control+k")
        page.get_by_role("combobox", name="Search").fill("printer 2")
        page.get_by_role("option", name="printer 2").click()
        expect(page.get_by_role("heading", name="printer 2")).to_be_visible()
        expect(page.locator(".tile").filter(has_text="User")).to_contain_text("ann")


@pytest.mark.feature("S4-78")
def test_a_connection_shows_its_channels_and_their_consumers(
    broker: leveret.Broker, log_in: LogIn, till: BlockingChannel, picture: Picture
) -> None:
    page = log_in(address="/#/connections")
    page.get_by_role("link", name="till 1").click()
    expect(page.get_by_role("heading", name="till 1")).to_be_visible()
    expect(page.locator(".facts")).to_contain_text("PLAIN")
    expect(page.locator(".card").filter(has_text="Client").locator("dl")).to_contain_text("till 1")
    row = page.get_by_role("region", name="channels").locator(".rows tr")
    expect(row.locator("td")).to_have_text(["1", "running", "confirm", "7", "2", "0", "1", "0/s", "0/s"])
    picture("connection")
    assert not does_not_fit(page)
    row.get_by_role("link").click()
    consumers = page.get_by_role("region", name="consumers")
    expect(consumers).to_contain_text("till-tag")
    expect(page.locator(".tile").filter(has_text="Unacked").locator("b")).to_have_text("2")
    expect(page.locator(".tile").filter(has_text="Prefetch").first.locator("b")).to_have_text("7")
    picture("channel")
    assert not does_not_fit(page)
    consumers.get_by_role("link", name="orders").click()
    expect(page.get_by_role("heading", name="orders")).to_be_visible()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    files = {"tls_cert": certificates.certificate, "tls_key": certificates.key}
    with leveret.Broker(replace(QUIET, amqps_port=0, **files)) as running:
        yield running


def test_protocol_tls_and_cipher_are_columns(
    secure: leveret.Broker, certificates: CertificateFiles, chromium: Browser, complaints: Complaints
) -> None:
    parameters = pika.URLParameters(f"{secure.amqps_url}?heartbeat=0")
    parameters.ssl_options = pika.SSLOptions(certificates.client(), "127.0.0.1")
    parameters.client_properties = {"connection_name": "sealed"}
    with (
        pika.BlockingConnection(parameters),
        client(secure, "unencrypted"),
        chromium.new_context(base_url=secure.http_url, viewport={"width": 1600, "height": 900}) as context,
    ):
        page = context.new_page()
        complaints.watch(page)
        page.goto("/#/connections")
        fill(page, User_name="guest", Password="guest")
        press(page, "Log in")
        sealed, plain = (page.locator(".rows tr").filter(has_text=name) for name in ("sealed", "unencrypted"))
        for row, tls in ((sealed, "tlsv1.3"), (plain, "no")):
            expect(row.get_by_role("cell", name="AMQP 0-9-1", exact=True)).to_be_visible()
            expect(row.get_by_role("cell", name=tls, exact=True)).to_be_visible()
        press(page, "Columns …")
        page.get_by_role("dialog").get_by_label("Cipher").check()
        page.keyboard.press("Escape")
        (cipher,) = [row["ssl_cipher"] for row in as_guest(secure).get("connections")[1] if row["ssl"]]
        expect(sealed.get_by_role("cell", name=cipher, exact=True)).to_be_visible()
    assert complaints == []


def test_a_connection_is_closed_with_a_reason(broker: leveret.Broker, log_in: LogIn, till: BlockingChannel) -> None:
    page = log_in(address="/#/connections")
    page.get_by_role("link", name="till 1").click()
    page.get_by_role("button", name="Close connection …").click()
    page.get_by_label("Reason").fill("moving house")
    page.get_by_role("button", name="Close connection", exact=True).click()
    expect(page.get_by_role("heading", name="Connections")).to_be_visible()
    expect(page.get_by_text("No connections.")).to_contain_text(broker.amqp_url.rpartition(":")[2].split("/")[0])
    with pytest.raises(ConnectionClosedByBroker, match="moving house"):
        till.start_consuming()
    assert broker.vhost().message_count("orders") == 2


def test_a_connection_that_is_gone_is_told(log_in: LogIn, complaints: Complaints) -> None:
    complaints.expect("404")
    page = log_in(address="/#/connections/missing")
    expect(page.get_by_role("alert").first).to_contain_text("no connection 'missing'")
    expect(page.get_by_role("button", name="Close connection …")).to_be_disabled()
    page.goto("/#/channels/nothing")
    expect(page.get_by_role("alert").first).to_contain_text("no channel 'nothing'")
    page.goto("/#/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()


def test_a_canary_in_every_field_shows_as_text(broker: leveret.Broker, log_in: LogIn, complaints: Complaints) -> None:
    core = broker.node.broker
    broker.call(lambda: core.add_vhost(CANARY))
    broker.call(lambda: core.users.add(CANARY, password="secret", tags=("administrator",)))
    broker.call(lambda: core.permissions.set(CANARY, CANARY, ".*", ".*", ".*"))
    broker.vhost(CANARY).declare_queue(CANARY)
    parameters = pika.URLParameters(broker.amqp_url)
    parameters.virtual_host = CANARY
    parameters.credentials = pika.PlainCredentials(CANARY, "secret")
    parameters.client_properties = {"connection_name": CANARY, "product": CANARY, CANARY: {CANARY: [CANARY]}}
    connection = pika.BlockingConnection(parameters)
    connection.channel().basic_consume(CANARY, lambda *delivered: None, consumer_tag=CANARY)
    page = log_in(address="/#/connections")
    expect(page.locator(".rows tr")).to_contain_text(CANARY)
    page.get_by_role("link", name=CANARY).click()
    expect(page.get_by_role("heading", name=CANARY)).to_be_visible()
    expect(page.locator(".tile").filter(has_text="User")).to_contain_text(CANARY)
    expect(page.locator(".tile").filter(has_text="Virtual host")).to_contain_text(CANARY)
    expect(page.locator(".card dl").first).to_contain_text(CANARY)
    page.get_by_role("region", name="channels").get_by_role("link").click()
    expect(page.get_by_role("region", name="consumers").get_by_role("link")).to_have_text(CANARY)
    expect(page.get_by_role("region", name="consumers").locator(".rows td").first).to_have_text(CANARY)
    assert page.evaluate(INJECTED) == 0
    assert complaints == []
    connection.close()


def test_only_who_may_close_a_connection_is_offered_it(
    broker: leveret.Broker, log_in: LogIn, till: BlockingChannel
) -> None:
    broker.call(lambda: broker.node.broker.users.add("watcher", password="secret", tags=("monitoring",)))
    page = log_in("watcher", "secret", "/#/connections")
    page.get_by_role("link", name="till 1").click()
    expect(page.locator(".tile").filter(has_text="User")).to_contain_text("guest")
    expect(page.get_by_role("button", name="Close connection …")).to_be_hidden()
