"""The job and the results of a Spark process, as JSON between it and the benchmark that starts it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

NEWS = "LEVERET_BENCH_NEWS"  # names the file descriptor for progress lines
Role = Literal["check", "measure"]
Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    format: str
    options: dict[str, str]


@dataclass(frozen=True, slots=True)
class Sink:
    """noop, parquet (a path) or exchange (options of our sink)."""

    kind: Literal["noop", "parquet", "exchange"]
    path: str = ""
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pass:
    """One streaming query until all that was there is read. `observe` adds up what it reads, for a little CPU time."""

    role: Role
    source: Source
    sink: Sink
    observe: bool


@dataclass(frozen=True, slots=True)
class Job:
    """Streaming passes in turn, or one batch read (`batch`, after `nothing`, an empty queue); then, if given, `output`
    is read and added up."""

    name: str
    folder: str
    broker_pid: int
    passes: tuple[Pass, ...] = ()
    batch: Source | None = None
    nothing: Source | None = None
    output: Source | None = None
    listener_options: dict[str, str] | None = None
    has_headers: bool = False

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        given = json.loads(text)
        given["passes"] = tuple(
            Pass(each["role"], Source(**each["source"]), Sink(**each["sink"]), each["observe"])
            for each in given["passes"]
        )
        for name in ("batch", "nothing", "output"):
            given[name] = None if given[name] is None else Source(**given[name])
        return cls(**given)
