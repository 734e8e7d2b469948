"""Whether the engine keeps what it acknowledges. Checked when a node starts, before it uses the engine.

The version and the configuration of the servers are read from their monitoring port (``/varz``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from leveret.cluster.engine import EngineOptions
from leveret.cluster.engine_login import NO_LOGIN, EngineLogin
from leveret.errors import ClusterError
from leveret.http_client import BROKEN, HttpConnection
from leveret.logs import get_log
from leveret.replication.records import HEAD_SIZE, PART_SIZE

OLDEST = (2, 14)
RISKY = ((2, 15, 0), (2, 15, 1))
SERVERS = 3
SMALLEST_PAYLOAD = PART_SIZE + HEAD_SIZE + 1024  # with the headers of a message
SECONDS = 5.0
START_SECONDS = 60.0  # for JetStream to start: it reads its data first
PAUSE = 0.1
LARGEST_ANSWER = 1 << 22
VERSION = re.compile(r"v?(\d+)\.(\d+)\.(\d+)")
UNSAFE = "or accept it for development with --allow-unsafe-engine"


class ServerFacts(NamedTuple):
    url: str
    id: str
    version: tuple[int, ...]
    cluster: str
    has_jetstream: bool
    syncs_always: bool
    max_payload: int
    name: str = ""


class Findings(NamedTuple):
    """``unsafe``: acknowledged data could be lost. ``broken``: the engine cannot be used at all."""

    broken: list[str]
    unsafe: list[str]
    warnings: list[str]


def examine(servers: Sequence[ServerFacts], down: int = 0) -> Findings:
    """``down``: number of servers that do not run now."""
    found = Findings([], [], [])
    for server in servers:
        _examine_one(server, found)
    distinct = {server.id for server in servers}
    if len(distinct) + down < SERVERS:
        found.unsafe.append(
            f"the addresses lead to {len(distinct)} distinct server(s), but {SERVERS} are needed: name three servers "
            "of one NATS cluster"
        )
    clusters = {server.cluster for server in servers}
    if len(distinct) > 1 and (len(clusters) > 1 or "" in clusters):
        names = ", ".join(sorted(cluster or "none" for cluster in clusters))
        found.broken.append(f"the servers belong to different NATS clusters ({names}): name servers of one cluster")
    return found


def _examine_one(server: ServerFacts, found: Findings) -> None:
    name, version = server.url, ".".join(map(str, server.version))
    if not server.has_jetstream:
        found.broken.append(f"{name} runs without JetStream: add a 'jetstream' block to its configuration")
        return
    if server.version < OLDEST:
        found.unsafe.append(f"{name} is nats-server {version}: upgrade it to 2.14 or newer")
    elif server.version in RISKY:
        found.warnings.append(
            f"{name} is nats-server {version}, which can lose acknowledged data when all servers lose power at once: "
            "use 2.14 or a release after 2.15.1"
        )
    if not server.syncs_always:
        found.unsafe.append(
            f"{name} acknowledges before its disk has the data: set 'sync_interval: always' in its 'jetstream' block"
        )
    if (problem := payload_problem(name, server.max_payload)) is not None:
        found.broken.append(problem)


def payload_problem(url: str, max_payload: int) -> str | None:
    """Why records of the log do not fit into messages of this server."""
    if max_payload >= SMALLEST_PAYLOAD:
        return None
    return f"{url} accepts messages of at most {max_payload} bytes: set 'max_payload' to 1MB or more"


async def check_engine(options: EngineOptions) -> list[ServerFacts]:
    """Raises ClusterError for an engine that must not be used. A node starts while the smaller part of the servers is
    down: it is there to replace others. A server that runs must be checked."""
    answers = await asyncio.gather(
        *(_facts(url, options.login) for url in options.monitoring_urls), return_exceptions=True
    )
    servers, missing, down = [], [], []
    for place, (url, answer) in enumerate(zip(options.monitoring_urls, answers, strict=True)):
        if isinstance(answer, ServerFacts):
            servers.append(answer)
        elif not isinstance(answer, ClusterError):
            raise ClusterError(f"cannot check the NATS server at {url}: {answer}") from answer
        elif await _is_down(options, place):
            down.append(f"{options.urls[place]} cannot be reached")
        else:
            missing.append(str(answer))
    if 2 * len(down) > len(options.monitoring_urls):
        raise ClusterError(f"{'; '.join(down)}: start the NATS servers, or correct --cluster")
    unchecked = [f"{each}, its configuration was not checked" for each in down]
    found = examine(servers, len(down))
    _report(options, found._replace(unsafe=missing + found.unsafe, warnings=unchecked + found.warnings))
    return servers


async def _facts(url: str, login: EngineLogin) -> ServerFacts:
    """The monitoring port of a server that was started just now is open before its JetStream is, and reports the server
    as unhealthy until then."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + START_SECONDS
    is_started = False
    while True:
        facts = await loop.run_in_executor(None, read_facts, url, login)
        if facts.has_jetstream or is_started:
            return facts
        await asyncio.sleep(PAUSE)
        is_started = loop.time() > deadline or await loop.run_in_executor(None, is_healthy, url, login)


async def _is_down(options: EngineOptions, place: int) -> bool:
    """Whether the server accepts no clients either. Monitoring addresses are in the order of those for clients."""
    if len(options.urls) != len(options.monitoring_urls):
        return False
    parts = urlsplit(options.urls[place])
    try:
        async with asyncio.timeout(SECONDS):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 4222)
    except (OSError, TimeoutError):
        return True
    writer.close()
    return False


def _report(options: EngineOptions, found: Findings) -> None:
    log = get_log("cluster")
    if found.broken:
        raise ClusterError(f"the engine cannot be used: {'; '.join(found.broken)}")
    if found.unsafe and not options.is_unsafe_allowed:
        raise ClusterError(f"the engine may lose confirmed messages: {'; '.join(found.unsafe)}; {UNSAFE}")
    for warning in found.unsafe + found.warnings:
        log.warning("the engine may lose confirmed messages", reason=warning)


def read_facts(url: str, login: EngineLogin = NO_LOGIN) -> ServerFacts:
    """Blocks. ``url``: of the monitoring port."""
    try:
        _, body = _get(url, "/varz", login)
        return facts_of(url, msgspec.json.decode(body))
    except (*BROKEN, msgspec.MsgspecError, KeyError, TypeError) as problem:
        raise ClusterError(
            f"the server's configuration cannot be read from {url}/varz ({problem}): set 'http_port' in the "
            "configuration of the NATS server, and --cluster-monitoring if its monitoring port is not 8222"
        ) from problem


def is_healthy(url: str, login: EngineLogin = NO_LOGIN) -> bool:
    """Blocks. A server with a configuration for JetStream is healthy when JetStream runs."""
    try:
        status, _ = _get(url, "/healthz?js-enabled-only=true", login)
    except BROKEN:
        return False
    return status == HTTPStatus.OK


def _get(url: str, path: str, login: EngineLogin) -> tuple[int, bytes]:
    parts = urlsplit(url)
    try:
        tls = login.tls_context() if parts.scheme == "https" else None
    except OSError as problem:
        raise ClusterError(f"cannot check the NATS server at {url} ({problem}): {login.remedy(problem)}") from problem
    connection = HttpConnection(parts.scheme, parts.hostname or "", parts.port or 8222, SECONDS, tls)
    try:
        response = connection.send("GET", path, None, {})
        return response.status, response.read(LARGEST_ANSWER)
    finally:
        connection.close()


def facts_of(url: str, varz: dict[str, Any]) -> ServerFacts:
    match = VERSION.match(varz["version"])
    config = varz.get("jetstream", {}).get("config")
    return ServerFacts(
        url=url,
        id=varz["server_id"],
        version=tuple(map(int, match.groups())) if match else (0,),
        cluster=varz.get("cluster", {}).get("name", ""),
        has_jetstream=config is not None,
        syncs_always=bool(config and config.get("sync_always")),
        max_payload=varz["max_payload"],
        name=varz.get("server_name", ""),
    )
