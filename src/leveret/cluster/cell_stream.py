"""The stream and the bucket of a cell in the engine.

The stream is a ring: the engine removes the oldest records when ``max_bytes`` is reached, far behind what the members
have applied. It cannot be purged, and single records cannot be deleted: a member that has not read them would miss
them, and purges close to the end have lost data in some versions of the engine.

A log has a random id, in the metadata of its stream. The subject of its records has the id too: a leader that still
appends to a former log of the cell reaches no stream. The metadata of a log that was founded from the data directories
of a former one names that log, and the node that has to begin.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from typing import Any, NamedTuple

from leveret.cluster.engine import (
    NO_PEERS,
    NO_STREAM,
    REQUEST_SECONDS,
    STREAM_EXISTS,
    EngineConnection,
    EngineRefusal,
    EngineUnavailable,
)
from leveret.cluster.log_faults import REFOUND, LogGone
from leveret.errors import ClusterError
from leveret.replication.records import HEAD_SIZE, PART_SIZE, cell_id

RING_BYTES = 4 << 30
SMALLEST_RING = 64 << 20
REPEATED_IDS_SECONDS = 120
NANOSECONDS = 1_000_000_000
BUCKET = "LEVERET"
LOG, PREVIOUS, FOUNDER, EPOCH = "leveret_log", "leveret_previous", "leveret_founder", "leveret_epoch"
CELL_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
# What an existing stream must have in common with ours.
ESSENTIAL = ("storage", "retention", "discard", "subjects", "num_replicas", "max_age", "max_msgs")


class Founding(NamedTuple):
    """How a log begins that continues former ones: the node ``founder`` claims first, with its data directory, in an
    epoch above ``epoch``. ``previous``: the ids of the former logs."""

    previous: tuple[str, ...] = ()
    founder: str = ""
    epoch: int = 0


class CellStream(NamedTuple):
    """The names of a cell in the engine. ``log``: the id of its log, once it is known."""

    cell: str
    log: str = ""

    @classmethod
    def of(cls, cell: str) -> CellStream:
        if not CELL_NAME.fullmatch(cell):
            raise ClusterError(
                f"{cell[:80]!r} cannot be the name of a cell: use 1 to 64 letters, digits, hyphens and underscores"
            )
        return cls(cell)

    @property
    def id(self) -> int:
        return cell_id(self.cell)

    @property
    def name(self) -> str:
        return f"LEVERET_{self.cell}"

    @property
    def subject(self) -> str:
        return f"leveret.{self.cell}.log.{self.log}" if self.log else f"leveret.{self.cell}.log"

    def configuration(self, replicas: int, ring_bytes: int, founding: Founding | None = None) -> dict[str, Any]:
        """Of a new log, with an id of its own."""
        new = self._replace(log=secrets.token_hex(8))
        metadata = {LOG: new.log}
        if founding is not None:
            metadata |= {PREVIOUS: ",".join(founding.previous), FOUNDER: founding.founder, EPOCH: str(founding.epoch)}
        return {
            "name": self.name,
            "description": f"The replicated journal of the Leveret cell {self.cell}",
            "subjects": [new.subject],
            "metadata": metadata,
            "retention": "limits",
            "storage": "file",
            "discard": "old",
            "num_replicas": replicas,
            "max_bytes": ring_bytes,
            "max_msgs": -1,
            "max_age": 0,
            "max_msg_size": PART_SIZE + HEAD_SIZE + 1024,
            "duplicate_window": REPEATED_IDS_SECONDS * NANOSECONDS,
            "deny_delete": True,
            "deny_purge": True,
        }


class LogFacts(NamedTuple):
    """What the engine knows about the log of a cell. ``first`` and ``last``: the sequences of its records. ``server``:
    the name of the server that leads the stream. ``has_leader``: without one, the engine answers and stores nothing."""

    stream: CellStream
    first: int
    last: int
    founding: Founding
    has_leader: bool = True
    server: str = ""

    @property
    def is_empty(self) -> bool:
        return self.last == 0

    def continues(self, log: str) -> bool:
        """Whether it was founded from data directories of that log."""
        return log in self.founding.previous


def facts_of(cell: str, info: dict[str, Any]) -> LogFacts:
    """From the engine's answer about a stream."""
    metadata, state = info["config"].get("metadata") or {}, info["state"]
    previous = tuple(log for log in metadata.get(PREVIOUS, "").split(",") if log)
    founding = Founding(previous, metadata.get(FOUNDER, ""), int(metadata.get(EPOCH, 0)))
    stream = CellStream(cell, metadata.get(LOG, ""))
    server = info.get("cluster", {}).get("leader", "")
    has_leader = "cluster" not in info or bool(server)
    return LogFacts(stream, int(state["first_seq"]), int(state["last_seq"]), founding, has_leader, server)


async def read_log(connection: EngineConnection, stream: CellStream, seconds: float = REQUEST_SECONDS) -> LogFacts:
    """Raises LogGone if there is no log, EngineUnavailable when the engine does not answer."""
    try:
        return facts_of(stream.cell, await connection.request(f"$JS.API.STREAM.INFO.{stream.name}", seconds=seconds))
    except EngineRefusal as refusal:
        if refusal.code != NO_STREAM:
            raise EngineUnavailable(str(refusal)) from refusal
        raise LogGone(
            f"the stream {stream.name} is not in the engine any more: start the NATS servers with the data directories "
            f"that they had, or {REFOUND}"
        ) from refusal


def bucket_configuration(replicas: int) -> dict[str, Any]:
    """A key-value bucket of NATS whose keys may have a time to live of their own."""
    return {
        "name": f"KV_{BUCKET}",
        "description": "Leases and members of Leveret cells",
        "subjects": [f"$KV.{BUCKET}.>"],
        "storage": "file",
        "num_replicas": replicas,
        "max_msgs_per_subject": 1,
        "max_msgs": -1,
        "max_age": 0,
        "max_bytes": 16 << 20,
        "discard": "new",
        "retention": "limits",
        "allow_rollup_hdrs": True,
        "allow_direct": False,  # a lease is read from the leader of the bucket
        "allow_msg_ttl": True,
        "deny_delete": True,
    }


async def prepare_stream(
    connection: EngineConnection, configuration: dict[str, Any], seconds: float = 30.0
) -> dict[str, Any]:
    """Create the stream unless it is there, and return what the engine knows about it. Waits for a leader."""
    deadline = asyncio.get_running_loop().time() + seconds
    while True:
        try:
            info = await _create(connection, configuration)
            if "cluster" not in info or info["cluster"].get("leader"):
                return info
            problem: Exception = EngineUnavailable("the stream has no leader yet")
        except EngineUnavailable as unavailable:
            problem = unavailable
        except EngineRefusal as refusal:
            if refusal.code not in (NO_PEERS, NO_STREAM):
                raise ClusterError(
                    f"the engine refuses the stream {configuration['name']}: {refusal}; correct the configuration of "
                    "the NATS servers"
                ) from refusal
            # Servers that were started just now may not know each other yet, or a stream that another node is creating.
            problem = refusal
        if asyncio.get_running_loop().time() > deadline or connection.lost.is_set():
            raise ClusterError(
                f"the stream {configuration['name']} cannot be used within {seconds:.0f} seconds ({problem}): check "
                "that all NATS servers run and have enough space for JetStream (max_file_store)"
            ) from problem
        await asyncio.sleep(0.1)


async def _create(connection: EngineConnection, configuration: dict[str, Any]) -> dict[str, Any]:
    name = configuration["name"]
    try:
        created: dict[str, Any] = await connection.request(f"$JS.API.STREAM.CREATE.{name}", configuration)
        return created
    except EngineRefusal as refusal:
        if refusal.code not in STREAM_EXISTS:
            raise
    info: dict[str, Any] = await connection.request(f"$JS.API.STREAM.INFO.{name}")
    _compare(info["config"], configuration)
    return info


def _compare(found: dict[str, Any], wanted: dict[str, Any]) -> None:
    """The size of the ring and the like may be changed by an operator, these must not. A log may have any id."""
    if LOG in wanted.get("metadata", {}):
        cell = wanted["name"].removeprefix(CellStream("").name)
        existing = CellStream(cell, (found.get("metadata") or {}).get(LOG, ""))
        wanted = wanted | {"subjects": [existing.subject]}
    different = [
        f"{key} is {found.get(key)!r} instead of {wanted[key]!r}"
        for key in ESSENTIAL
        if key in wanted and found.get(key) != wanted[key]
    ]
    if different:
        raise ClusterError(
            f"the stream {wanted['name']} exists with another configuration ({', '.join(different)}): correct it with "
            f"'nats stream edit {wanted['name']}', or choose another cell name"
        )
