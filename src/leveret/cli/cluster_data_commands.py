"""``leveret cluster join``, ``remove``, ``refound`` and ``leave``: the members of a cell, and the data it begins with.

They use the engine or the data directory, not the HTTP API: the cell may have no leader.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from leveret.cli.api_client import Misuse, Refusal
from leveret.cli.broker_options import YES, confirm, reported
from leveret.cli.cluster_join import describe, serve_command
from leveret.cli.output import print_line
from leveret.config import Settings
from leveret.config_sources import load_settings
from leveret.errors import ClusterError, StoreError

if TYPE_CHECKING:
    from leveret.cluster.member_position import MemberPosition
    from leveret.cluster.new_log import Survey

T = TypeVar("T")
EVERY = "main"  # the default of the setting: with several cells, all of them

CONFIG = typer.Option(None, "--config", metavar="FILE", help="TOML file with the settings of a node.")
CLUSTER = typer.Option(None, "--cluster", metavar="URLS", help="NATS servers, as in 'leveret serve'.")
CELL = typer.Option(None, "--cell", metavar="NAME", help="Name of the cell, as in 'leveret serve'.")
NODE = typer.Argument(metavar="NODE", help="Name of the node, as in 'leveret cluster status'.")
DATA_DIR = typer.Option(
    None,
    "--data-dir",
    metavar="PATH",
    help="Data directory of a member: it lists the other members, in case the engine has lost the list.",
)
NEW_DIR = typer.Option(None, "--data-dir", metavar="PATH", help="Data directory of the node.")
MONITORING = typer.Option(
    None, "--cluster-monitoring", metavar="URLS", help="Monitoring URLs of the NATS servers, as in 'leveret serve'."
)
NODE_NAME = typer.Option(None, "--node-name", metavar="NAME", help="Name of the node, unique in the cell.")
LEFT_DIR = typer.Argument(metavar="DATA_DIR", help="Data directory of a stopped node.")
MEMBERS = typer.Option(
    None, "--members", metavar="HOST:PORT,...", help="Cluster ports of members that are not in the list."
)
FORCE = typer.Option(False, "--force", help="Continue if a majority of the members answers.")
ORIGIN = typer.Option(
    "",
    "--from",
    metavar="NODE",
    help="Node whose data counts, if the nodes have data of different logs.  [default: the one that has the most]",
)
FORCE_LEAVE = typer.Option(False, "--force", help="Continue if the directory is damaged.")


def register(app: typer.Typer) -> None:
    for command in (join, remove, refound, leave):
        app.command(command.__name__)(reported(command))


def join(
    cluster: str | None = CLUSTER,
    cell: str | None = CELL,
    node_name: str | None = NODE_NAME,
    data_dir: str | None = NEW_DIR,
    monitoring: str | None = MONITORING,
    config: Path | None = CONFIG,
) -> None:
    """Check whether a node on this machine can join a cell, and print the command that starts it.

    Checks the NATS servers and the cluster ports of the members. Nothing is changed: a node joins when it is started.
    """
    flags = {"cluster": cluster, "cell": cell, "node_name": node_name, "data_dir": data_dir}
    flags["cluster_monitoring"] = monitoring
    settings = _settings(config, **flags)

    async def run() -> None:
        from leveret.cluster.join_check import check_data_dir, check_leader, survey_cell

        for each in _members(settings):
            check_data_dir(each)
            found = await survey_cell(each)
            for line in describe(each, found):
                print_line(line)
            check_leader(each, found)
        print_line(f"To start the node: {serve_command(config, flags)}")

    _run(run)


def remove(
    node: str = NODE,
    cluster: str | None = CLUSTER,
    cell: str | None = CELL,
    config: Path | None = CONFIG,
    yes: bool = YES,
) -> None:
    """Remove a node from the cell. A running node stops following; a node that is started again joins again."""
    settings = _settings(config, cluster=cluster, cell=cell)
    where = "all cells" if settings.cells > 1 and settings.cell == EVERY else f"the cell '{settings.cell}'"
    confirm(f"Remove node '{node}' from {where}?", yes)

    async def run() -> None:
        from leveret.cluster.new_log import remove_member
        from leveret.cluster.node_settings import engine_options

        for each in _members(settings):
            await remove_member(engine_options(settings), each.cell, node)

    _run(run)
    print_line(f"node '{node}' removed from {where}; its data directory is unchanged")


def refound(
    cluster: str | None = CLUSTER,
    cell: str | None = CELL,
    data_dir: str | None = DATA_DIR,
    members: str | None = MEMBERS,
    origin: str = ORIGIN,
    config: Path | None = CONFIG,
    force: bool = FORCE,
    yes: bool = YES,
) -> None:
    """Create the log of a cell again from its members' data directories, when the NATS servers have lost it.

    The nodes must be running. The node with the most recent data becomes the leader; the others copy its data and keep
    their own files in a folder 'before-...' of their data directories.
    """
    settings = _settings(config, cluster=cluster, cell=cell, data_dir=data_dir)
    if settings.cells > 1 and settings.cell == EVERY:
        raise Misuse("the cluster has several cells: name the one to found again with --cell, such as --cell c1")
    addresses = _addresses(members or "")

    async def run() -> tuple[str, int]:
        from leveret.cluster.new_log import NewLog
        from leveret.cluster.node_settings import engine_options
        from leveret.store.cell_file import read_cell

        (member,) = _members(settings)
        assert member.data_dir is not None
        saved = read_cell(member.data_dir)
        if saved is not None and saved.cell != settings.cell:
            saved = None
        new_log = NewLog(engine_options(settings), settings.cell, saved, addresses)
        survey = await new_log.survey(force, origin)
        _print_survey(survey)
        question = f"Create the log of the cell '{settings.cell}' again with the data of '{survey.best.member.node}'?"
        confirm(f"{question}{' What is left of the former log is deleted.' if survey.log else ''}", yes)
        await new_log.found(survey, force, print_line)
        return survey.best.member.node, len(survey.answered) - 1

    leader, others = _run(run)
    print_line(f"node '{leader}' leads the cell '{settings.cell}'; {others} other node(s) copy its data")


def leave(data_dir: Path = LEFT_DIR, force: bool = FORCE_LEAVE) -> None:
    """Turn the data directory of a stopped node of a cell into that of a single node."""
    from leveret.cli.data import not_in_use
    from leveret.store.cell_file import remove_cell
    from leveret.store.data_dir import REPLICA
    from leveret.store.inspection import inspect
    from leveret.store.replica_note import read_note, remove_note

    async def run() -> str:
        with not_in_use(data_dir):
            note = read_note(data_dir)
            if any(data_dir.glob("snapshot.*")):
                raise StoreError(f"{data_dir} is not complete: start the node once more, it copies the leader's data")
            if note is None:
                raise StoreError(f"{data_dir} belongs to no cell (it has no file {REPLICA!r})")
            if not inspect(data_dir).contents.is_sound and not force:
                raise StoreError(f"{data_dir} is damaged, see 'leveret check {data_dir}': use another, or --force")
            remove_note(data_dir)
            remove_cell(data_dir)
            return f"{data_dir} has left the cell '{note.cell}' and is the data directory of a single node now"

    print_line(_run(run))
    print_line(f"To start a single node with it: leveret serve --data-dir {data_dir}")
    print_line("If other nodes of the cell keep running, remove this one: leveret cluster remove NODE")


def _print_survey(survey: Survey) -> None:
    best = survey.best
    for each in sorted(survey.answered, key=lambda each: each.rank, reverse=True):
        print_line(_line(each) + ("  <- the new log begins with this" if each is best else ""))
    for node, reason in sorted(survey.missing.items()):
        print_line(f"{node}: no answer ({reason})")


def _line(each: MemberPosition) -> str:
    if each.is_blank:
        return f"{each.member.node}: no data"
    return f"{each.member.node}: epoch {each.epoch}, batch {each.batch}, journal to {each.end[0]}:{each.end[1]}"


def _settings(config: Path | None, **flags: str | None) -> Settings:
    settings = load_settings(config, os.environ, flags)
    if not settings.cluster:
        raise Misuse("the NATS servers are not set: use --cluster or --config, as in 'leveret serve'")
    return settings


def _members(settings: Settings) -> list[Settings]:
    """Those of the member of each cell that is meant: one, or all of several."""
    from leveret.replicated_cell import member_settings, placed_cells

    if settings.cells == 1:
        return [settings]
    return [member_settings(settings, cell) for cell in placed_cells(settings)]


def _addresses(text: str) -> list[tuple[str, int]]:
    found = []
    for each in filter(None, text.split(",")):
        host, _, port = each.strip().rpartition(":")
        if not host or not port.isdigit():
            raise Misuse(f"--members has {each!r}: write HOST:PORT, with the cluster port of the node")
        found.append((host.strip("[]"), int(port)))
    return found


def _run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    try:
        return asyncio.run(work())
    except ModuleNotFoundError as problem:
        if problem.name != "nats":
            raise
        raise Misuse("this command needs nats-py, the NATS client: pip install 'leveret[cluster]'") from problem
    except (ClusterError, StoreError, OSError) as problem:
        raise Refusal(str(problem)) from problem
