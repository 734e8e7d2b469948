"""Whether the engine keeps what it acknowledges. Checked when a node starts, before it uses the engine.

The servers tell their version and configuration over their monitoring port (``/varz``).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import msgspec

from leveret.cluster.engine import EngineOptions
from leveret.errors import ClusterError
from leveret.http_client import BROKEN, HttpConnection
from leveret.logs import get_log
from leveret.replication.records import HEAD_SIZE, PART_SIZE

OLDEST = (2, 14)
RISKY = ((2, 15, 0), (2, 15, 1))
SERVERS = 3
SMALLEST_PAYLOAD = PART_SIZE + HEAD_SIZE + 1024  # with the headers of a message
SECONDS = 5.0
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


class Findings(NamedTuple):
    """``unsafe``: acknowledged data could be lost. ``broken``: the engine cannot be used at all."""

    broken: list[str]
    unsafe: list[str]
    warnings: list[str]


def examine(servers: Sequence[ServerFacts]) -> Findings:
    found = Findings([], [], [])
    for server in servers:
        _examine_one(server, found)
    distinct = {server.id for server in servers}
    if len(distinct) < SERVERS:
        found.unsafe.append(
            f"the addresses lead to {len(distinct)} distinct server(s), but {SERVERS} copies are needed: name three "
            "servers of one NATS cluster"
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
    if server.max_payload < SMALLEST_PAYLOAD:
        found.broken.append(
            f"{name} accepts messages of at most {server.max_payload} bytes: set 'max_payload' to 1MB or more"
        )


async def check_engine(options: EngineOptions) -> list[ServerFacts]:
    """Raises ClusterError for an engine that must not be used."""
    loop = asyncio.get_running_loop()
    answers = await asyncio.gather(
        *(loop.run_in_executor(None, read_facts, url) for url in options.monitoring_urls), return_exceptions=True
    )
    servers, missing = [], []
    for url, answer in zip(options.monitoring_urls, answers, strict=True):
        if isinstance(answer, ServerFacts):
            servers.append(answer)
        elif isinstance(answer, ClusterError):
            missing.append(str(answer))
        else:
            raise ClusterError(f"cannot check the engine at {url}: {answer}") from answer
    found = examine(servers)
    _report(options, found._replace(unsafe=missing + found.unsafe))
    return servers


def _report(options: EngineOptions, found: Findings) -> None:
    log = get_log("cluster")
    if found.broken:
        raise ClusterError(f"the engine cannot be used: {'; '.join(found.broken)}")
    if found.unsafe and not options.is_unsafe_allowed:
        raise ClusterError(f"the engine may lose confirmed messages: {'; '.join(found.unsafe)}; {UNSAFE}")
    for warning in found.unsafe + found.warnings:
        log.warning("the engine may lose confirmed messages", reason=warning)


def read_facts(url: str) -> ServerFacts:
    """Blocks. ``url``: of the monitoring port."""
    parts = urlsplit(url)
    connection = HttpConnection(parts.scheme, parts.hostname or "", parts.port or 8222, SECONDS)
    try:
        response = connection.send("GET", "/varz", None, {})
        body = response.read(1 << 22)
        return facts_of(url, msgspec.json.decode(body))
    except (*BROKEN, msgspec.MsgspecError, KeyError, TypeError) as problem:
        raise ClusterError(
            f"{url}/varz does not tell the server's configuration ({problem}): set 'http_port' in the configuration of "
            "the NATS server, and name that address as monitoring address"
        ) from problem
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
    )
