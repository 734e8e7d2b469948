"""``leveret cluster join``: the texts about a cell that a node is to join, and the command that starts the node."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from leveret.config import Settings

if TYPE_CHECKING:
    from leveret.cluster.join_check import JoinFacts
    from leveret.cluster.members import Member


def describe(settings: Settings, cell: JoinFacts) -> list[str]:
    names = ", ".join(f"{server.name} ({'.'.join(map(str, server.version))})" for server in cell.servers)
    lines = [f"engine: {len(cell.servers)} NATS server(s) checked: {names}"]
    if not cell.exists:
        return [*lines, f"cell '{settings.cell}': does not exist; the first node that starts founds it"]
    leader = f"node '{cell.leader}' leads" if cell.leader else "no node leads"
    lines.append(f"cell '{settings.cell}': {len(cell.members)} node(s), {leader}")
    for member in cell.members:
        lines.append(f"  {member.node}  {member.host}:{member.port}  {_state(member, settings, cell)}")
    return lines


def _state(member: Member, settings: Settings, cell: JoinFacts) -> str:
    problem = cell.unreachable.get(member.node)
    if member.node == settings.node_name:
        return "is running: choose another --node-name" if problem is None else "not running: replaced by this node"
    return "reachable" if problem is None else f"not reachable: {problem}"


def serve_command(config: Path | None, flags: Mapping[str, str | None]) -> str:
    """With the flags of this command; other settings come from the file and the environment, as they did here."""
    words = ["leveret", "serve"]
    if config is not None:
        words += ["--config", str(config)]
    for name, value in flags.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)
