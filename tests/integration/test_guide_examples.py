"""The Python of the guides runs as it stands, block by block, at a broker with other ports.

Pages that need Spark, several nodes or workers have tests of their own.
"""

from __future__ import annotations

import ast
import asyncio
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pika
import pytest
import stomp
import trustme

import leveret
from leveret.client import connect
from tests.support.guide_pages import PAGES, ROOT, blocks

README = ROOT / "README.md"
OWN_TESTS = ("client-transports",)  # below
QUEUES: dict[str, tuple[str, ...]] = {  # that a page uses and other pages declare
    "consumers": (),
    "duplicates": (),
    "embedding": (),
    "exchanges": (),
    "http": (),
    "policies": (),
    "queues": ("elsewhere",),
    "schedules": ("orders",),
    "security": (),
    "selectors": (),
    "sharding": (),
    "stomp": (),
    "tracing": (),
}
RUN_ELSEWHERE = {
    "cells": "tests/spark/test_cells.py",
    "celery": "tests/compat/test_celery_guide.py",
    "client": "tests/integration/test_client_guide.py",
    "client-jms": "tests/integration/test_jms_guide.py",
    "cluster": "tests/cluster/test_cells_guide.py",
    "first-hour": "tests/integration/test_guide_walkthrough.py",
    "pipelines": "tests/spark/test_guide.py",
    "schemas": "tests/spark/test_guide.py",
    "sink": "tests/integration/test_sink_client.py",
    "spark": "tests/spark/test_guide.py",
    "streams": "tests/integration/test_streams_guide.py",
    "tables": "tests/spark/test_tables.py",
}


@pytest.fixture
def guide_broker() -> Iterator[leveret.Broker]:
    """With the login of the guides."""
    with leveret.Broker(http_port=0, stomp_port=0, default_password="guest") as broker:
        yield broker


@pytest.fixture
def names(guide_broker: leveret.Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """What pages have imported or declared on pages before them. Afterwards, what they have opened is closed."""
    monkeypatch.chdir(tmp_path)
    write_certificates()
    connection = pika.BlockingConnection(pika.URLParameters(guide_broker.amqp_url))
    known = {"pika": pika, "stomp": stomp, "time": time, "leveret": leveret, "handle": lambda *_: None}
    known |= {"broker": guide_broker, "connection": connection, "channel": connection.channel()}
    yield known
    for opened in (connection, known["connection"], known["channel"].connection):
        if isinstance(opened, stomp.Connection12):
            opened.disconnect()
        elif opened.is_open:
            opened.close()
    known["broker"].stop()  # that of sharding.md is its own


def write_certificates() -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path("ca.pem")
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path("client.pem")


def run(block: str, names: dict[str, Any], broker: leveret.Broker, page: str) -> None:
    amqp, http, stomp_at = [urlsplit(url) for url in (broker.amqp_url, broker.http_url, broker.stomp_url)]
    code = re.sub(r"(?<=guest@)(localhost|127\.0\.0\.1)(:5672)?", f"127.0.0.1:{amqp.port}", block)
    code = code.replace('ConnectionParameters("127.0.0.1")', f'ConnectionParameters("127.0.0.1", {amqp.port})')
    code = code.replace("127.0.0.1:15672", f"127.0.0.1:{http.port}").replace("61613", str(stomp_at.port))
    exec(compile(code, f"{page}.md", "exec"), names)  # noqa: S102  the guide is ours


@pytest.mark.parametrize("page", QUEUES)
def test_the_python_of_a_page_runs(page: str, names: dict[str, Any], guide_broker: leveret.Broker) -> None:
    for name in QUEUES[page]:
        guide_broker.vhost().declare_queue(name)
    if page == "http":
        guide_broker.vhost().declare_queue("orders", durable=True, arguments={"x-queue-type": "stream"})
    found = [text for _, text in blocks(PAGES[page], "python")]
    assert found
    for block in found:
        if page == "policies":  # its first block stops its broker
            names["vhost"] = guide_broker.vhost()
        if page != "sharding" or "process_data_events" not in block:  # test_sharding_guide.py runs that one with cells
            run(block, names, guide_broker, page)


def test_the_tests_on_the_pages_pass(
    names: dict[str, Any],
    guide_broker: leveret.Broker,
    leveret_broker: leveret.Broker,
    leveret_broker_session: leveret.Broker,
    leveret_http: leveret.Broker,
) -> None:
    """Those of embedding.md and README.md, with the fixtures that they name."""
    fixtures = {"leveret_broker": leveret_broker, "leveret_broker_session": leveret_broker_session}
    fixtures["leveret_http"] = leveret_http
    for path in (PAGES["embedding"], README):
        for _, block in blocks(path, "python"):
            if "def test_" in block:
                run(block, names, guide_broker, path.stem)
    tests = {name: test for name, test in names.items() if name.startswith("test_")}
    assert len(tests) == 4
    for test in tests.values():
        (fixture,) = test.__code__.co_varnames[: test.__code__.co_argcount]
        test(fixtures[fixture])


def test_the_first_program_of_the_readme_runs(names: dict[str, Any], guide_broker: leveret.Broker) -> None:
    first, *_ = [text for _, text in blocks(README, "python")]
    run(first, names, guide_broker, "README")


def test_the_addresses_of_the_transports_connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the hosts of the page replaced by this one."""
    monkeypatch.chdir(tmp_path)
    write_certificates()
    with leveret.Broker(http_port=0, https_port=0, tls_cert=Path("client.pem")) as broker:
        amqp, https = urlsplit(broker.amqp_url), urlsplit(broker.https_url)
        login = f"{broker.username}:{broker.password}"
        hosts = {
            "user:password@broker.example/vhost": f"{login}@localhost:{https.port}/%2F",
            **{f"{name}.example": f"{login}@127.0.0.1:{amqp.port}" for name in ("a", "b", "balancer")},
        }
        for _, block in blocks(PAGES["client-transports"], "python"):
            for host, place in hosts.items():
                block = block.replace(f"//{host}", f"//{place}")
            assert ".example" not in block
            asyncio.run(asyncio.wait_for(executed(block), 20))


async def executed(block: str) -> None:
    """Code with ``await`` outside of functions; its connection is closed afterwards."""
    names: dict[str, Any] = {"connect": connect}
    code = compile(block, "client-transports.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    await eval(code, names)  # noqa: S307  the guide is ours
    assert names["connection"].is_closed == ("async with" in block)
    await names["connection"].close()


@pytest.mark.parametrize("path", [*PAGES.values(), README], ids=lambda path: path.stem)
def test_all_python_is_python(path: Path) -> None:
    for _, text in blocks(path, "python"):
        compile(text, path.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def test_every_page_is_run() -> None:
    with_python = {name for name, path in PAGES.items() if blocks(path, "python")}
    assert with_python == {*QUEUES, *OWN_TESTS, *RUN_ELSEWHERE}
    for name, place in RUN_ELSEWHERE.items():
        assert re.search(rf"\b{name}\.md", (ROOT / place).read_text()), place
