"""Runs one pipeline: options as flags, progress on standard error, Ctrl-C stops it after the current batch.

The flags are generated from the options declared in the job.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import typing
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields
from typing import Any

import typer

from leveret.cli.flags import option, with_parameters
from leveret.cli.pipeline_display import Display, table
from leveret.errors import ConfigError, LeveretError
from leveret.spark import LeveretListener
from leveret.spark.jobs.description import description_of
from leveret.spark.jobs.job import (
    BrokerOptions,
    Job,
    QueryOptions,
    SinkOptions,
    SourceOptions,
    broker_settings,
    flag_of,
)
from leveret.spark.jobs.running_job import OF_SPARK, Running, cause_of
from leveret.spark.jobs.session import open_session

POLL = 0.5  # seconds between two progress updates
GOOD, NOT_GOOD, UNUSABLE, INTERRUPTED = 0, 1, 2, 130
MASTER = typer.Option("local[*]", "--master", metavar="URL", help="Spark master: local[2], spark://host:7077, yarn.")
CONF = typer.Option([], "--conf", metavar="NAME=VALUE", help="Spark configuration property; repeatable.")


def command_of(job: Job) -> Any:
    """The command that runs the job, with a flag for each of its options."""

    def command(master: str, conf: list[str], **given: Any) -> None:
        options = job.options(**{name: _given(name, value) for name, value in given.items()})
        raise typer.Exit(run(job, options, master, pairs(conf, "conf")))

    kinds = typing.get_type_hints(job.options)
    parameters = [_flag(field, kinds[field.name]) for field in ordered_fields(job)]
    parameters += [option("master", str, MASTER), option("conf", list[str], CONF)]
    return with_parameters(command, parameters, command)


def ordered_fields(job: Job) -> list[Field[Any]]:
    """Required options first, then those of this job only, then those shared with other jobs."""
    groups = (job.options, SourceOptions, SinkOptions, QueryOptions, BrokerOptions)
    rank = {name: at for at, group in reversed([*enumerate(groups)]) for name in group.__annotations__}
    return sorted(fields(job.options), key=lambda field: (field.default is not MISSING, rank[field.name]))


def _flag(field: Field[Any], kind: Any) -> inspect.Parameter:
    """The flag for an option of the job."""
    default: Any = ... if field.default is MISSING else field.default
    if typing.get_origin(kind) in (Mapping, tuple):
        kind, default = list[str], []
    metavar = field.metadata["metavar"]
    if metavar is None and bool not in (kind, *typing.get_args(kind)):
        metavar = "TEXT"
    shown = str(field.metadata["help"])
    if default not in (..., None, False, []):
        shown = f"{shown}  [default: {default}]"
    flag = typer.Option(default, flag_of(field.name), metavar=metavar, help=shown, show_default=False)
    return option(field.name, kind, flag)


def _given(name: str, value: Any) -> Any:
    if name == "option":
        return pairs(value, name)
    return tuple(value) if isinstance(value, list) else value


def pairs(texts: Sequence[str], name: str) -> dict[str, str]:
    """Unlike the options of other commands, values are strings."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"invalid {flag_of(name)} {text!r}: write it as NAME=VALUE")
        found[key.strip()] = value
    return found


def run(job: Job, options: Any, master: str, conf: Mapping[str, str]) -> int:
    """Run the job, show its progress until it ends or a signal stops it, and return the exit code."""
    display = Display(sys.stderr)
    spark = open_session(job.name, master, conf, display.note)
    stopping = threading.Event()
    before = {number: signal.signal(number, lambda *_: stopping.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        described = {job.name: description_of(job, options)}
        spark.streams.addListener(LeveretListener(broker_settings(options), described))
        running = job.start(spark, options)
        is_interrupted = watch(running, display, stopping)
        report = running.report()
        lines = [*report.lines, *map(str, report.accounts)]
        sys.stdout.write(table(report.heads, report.rows) + "".join(f"{line}\n" for line in lines))
        return INTERRUPTED if is_interrupted else GOOD if report.is_good else NOT_GOOD
    except ConfigError:
        raise
    except LeveretError as problem:
        sys.stderr.write(f"leveret: {problem}\n")
        return NOT_GOOD
    except OF_SPARK as problem:
        sys.stderr.write(f"leveret: {cause_of(problem)}\n")
        return NOT_GOOD
    finally:
        spark.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def watch(running: Running, display: Display, stopping: threading.Event) -> bool:
    """Wait for the end of the job; whether ``stopping`` ended it."""
    try:
        while not running.wait(POLL):
            display.show(running.progress())
            if stopping.is_set():
                display.note("stopping; the next run continues from here")
                running.stop()
                return True
        display.show(running.progress())
        return False
    finally:
        display.close()
