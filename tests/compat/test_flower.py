"""Celery's Flower: what its broker page shows comes from the HTTP API."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trustme
from flower.utils.broker import RabbitMQ

import leveret
from leveret.config import Settings
from tests.compat.celery_app import make_app
from tests.compat.waiting import until
from tests.support.cell_ports import free_ports

REPOSITORY = Path(__file__).resolve().parents[2]


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def broker(broker: leveret.Broker) -> leveret.Broker:
    """With three tasks that no worker takes."""
    app = make_app(celery_url(broker), "rpc://")
    for _ in range(3):
        app.send_task("add", (1, 2), ignore_result=True)
    app.close()
    return broker


def celery_url(broker: leveret.Broker) -> str:
    """As Celery's users write the default virtual host: with nothing behind the slash, and one more."""
    return f"amqp://guest:guest@{urlsplit(broker.amqp_url).netloc.rpartition('@')[2]}//"


def api_url(url: str) -> str:
    return f"{url.replace('://', '://guest:guest@')}/api/"


def queues_of(client: RabbitMQ) -> dict[str, Any]:
    return {row["name"]: row for row in asyncio.run(client.queues(["plain", "ranked"]))}


@pytest.mark.feature("S4-77")
def test_flower_finds_the_queues_of_a_virtual_host(broker: leveret.Broker) -> None:
    found = queues_of(RabbitMQ(celery_url(broker), api_url(broker.http_url)))
    assert found["plain"]["messages"] == found["plain"]["messages_ready"] == 3
    assert found["plain"]["messages_unacknowledged"] == found["plain"]["consumers"] == 0
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    elsewhere = celery_url(broker).removesuffix("//") + "/other"
    assert queues_of(RabbitMQ(elsewhere, api_url(broker.http_url))) == {}


@pytest.mark.feature("S4-77")
def test_flower_over_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    settings = Settings(
        amqp_port=0,
        amqps_port=None,
        http_port=None,
        https_port=0,
        stomp_port=None,
        tls_cert=tmp_path / "server.pem",
        shutdown_timeout=0.5,
    )
    with leveret.Broker(settings) as broker:
        broker.call(lambda: broker.node.broker.vhost("/").declare_queue("plain", durable=True))
        trusting = {"ssl_ca_certs": str(tmp_path / "ca.pem")}
        client = RabbitMQ(celery_url(broker), api_url(broker.https_url), broker_use_ssl=trusting)
        assert queues_of(client).keys() == {"plain"}
        assert queues_of(RabbitMQ(celery_url(broker), api_url(broker.https_url))) == {}  # it trusts nobody


@pytest.mark.feature("S4-77")
def test_flower_shows_its_broker_page(broker: leveret.Broker, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "celery", "-A", "tests.compat.celery_app", "flower", "--address=127.0.0.1"]
    command += [f"--port={port}", f"--broker-api={api_url(broker.http_url)}"]
    environ = os.environ | {"COMPAT_BROKER": celery_url(broker), "COMPAT_BACKEND": "rpc://"}
    log = tmp_path / "log"
    with log.open("wb") as output:
        flower = subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdout=output, stderr=output)

    def page() -> str:
        assert flower.poll() is None, log.read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/broker", timeout=10) as answer:
                return str(answer.read().decode())
        except urllib.error.URLError:
            return ""  # it does not listen yet

    try:
        until(page, 30)
        broker.clock.advance(60)
        since = queues_of(RabbitMQ(celery_url(broker), api_url(broker.http_url)))["plain"]["idle_since"]
        cells = re.findall(r"<td[^>]*>\s*(.*?)\s*</td>", page(), re.DOTALL)
        at = next(place for place, cell in enumerate(cells) if "plain" in cell)
        assert cells[at + 1] == "3", cells
        assert since in cells[at + 2 :], cells  # the column "Idle since"
    finally:
        flower.kill()
        flower.wait(10)
