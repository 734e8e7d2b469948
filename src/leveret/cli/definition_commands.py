"""``leveret definitions``: export and import; files exported by RabbitMQ can be imported."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group
from leveret.cli.output import print_json, print_line
from leveret.cli.tables import numbered, printable, single, text

app = group("Export and import vhosts, users, permissions, policies, exchanges, queues and bindings.")

SECONDS = 600.0  # for a large import
VHOST = typer.Option(None, "--vhost", metavar="NAME", help="Only this virtual host, without users and permissions.")
TARGET = typer.Argument(None, metavar="[FILE]", help="Output file.  [default: standard output]")
KINDS = (
    *("vhosts", "users", "permissions", "topic_permissions", "parameters", "global_parameters"),
    *("policies", "exchanges", "queues", "bindings"),
)
STATES = (("created", "created"), ("changed", "changed"), ("existing", "unchanged"))


@app.command("export")
@at_broker
def export_definitions(
    api: Api,
    file: Path | None = TARGET,
    vhost: str | None = VHOST,
) -> None:
    """Export definitions as JSON. They include password hashes: the file is readable by its owner only."""
    answer = api.get("definitions", *([] if vhost is None else [vhost]))
    exported = json.dumps(answer.value, indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"
    if file is None or str(file) == "-":
        typer.echo(exported, nl=False)
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # an existing file would keep its mode
            out.write(exported)
    except OSError as problem:
        raise Misuse(f"cannot write {file}: {problem.strerror}") from None
    print_line(f"{_sum(answer.value)} exported to {file}")


def _sum(definitions: Row) -> str:
    kinds = sorted(definitions, key=lambda kind: KINDS.index(kind) if kind in KINDS else len(KINDS))
    numbers = {kind: len(definitions[kind]) for kind in kinds if isinstance(definitions[kind], list)}
    numbers = {kind: number for kind, number in numbers.items() if number}
    return ", ".join(numbered(number, kind.replace("_", " ")) for kind, number in numbers.items()) or "nothing"


@app.command("import")
@at_broker
def import_definitions(
    api: Api,
    file: str = typer.Argument(metavar="FILE", help="Exported by Leveret or RabbitMQ; - for standard input."),
    vhost: str | None = typer.Option(None, "--vhost", metavar="NAME", help="Import into this virtual host."),
    dry_run: bool = typer.Option(False, "--dry-run", help="Report what would change, without changing anything."),
    skip_unsupported: bool = typer.Option(
        False, "--skip-unsupported", help="Import everything else, and report what was left out."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Import definitions: all of them, or none (exit code 1) if one of them cannot be imported."""
    body = _read(file)
    path = ["definitions"] if vhost is None else ["definitions", vhost]
    try:
        query = {"dry_run": dry_run or None, "skip_unsupported": skip_unsupported or None}
        answer = api.post(*path, value=body, query=query, seconds=SECONDS)
    except Refusal as problem:
        _print_problems(problem.answer.get("problems") or [])
        raise
    if not (dry_run or skip_unsupported) or not answer.body:  # RabbitMQ returns nothing
        print_line("{}" if as_json else f"{_sum(json.loads(body))} imported")
        return
    if as_json:
        print_json(answer)
    report: Row = answer.value
    if not as_json:
        _print_report(report)
    if report["problems"] and not skip_unsupported:
        number = len(report["problems"])
        raise Refusal(f"{file} cannot be imported: {number} of its definitions are invalid, see above")


def _read(file: str) -> bytes:
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        definitions = json.loads(body)
    except OSError as problem:
        raise Misuse(f"cannot read {file}: {problem.strerror}") from None
    except ValueError as problem:
        raise Misuse(f"{file} is not valid JSON: {problem}") from None
    if not isinstance(definitions, dict):
        raise Misuse(
            f"{file} contains no definitions: it must be a JSON object with the keys queues, exchanges and so on"
        )
    return body


def _print_report(report: Row) -> None:
    """Totals by kind, then the objects that would be created or changed."""
    for state, words in STATES:
        rows = report[state]
        numbers = ", ".join(numbered(number, kind.replace("_", " ")) for kind, number in Counter(_kinds(rows)).items())
        print_line(f"{words}: {numbers or 'nothing'}")
        for row in rows if state != "existing" else ():
            place = f" in vhost '{printable(row['vhost'])}'" if row.get("vhost") is not None else ""
            print_line(f"  {_kind(row)} '{printable(row['name'])}'{place}")
    if report.get("ignored"):
        print_line(f"ignored, not supported: {text(report['ignored'])}")
    _print_problems(report["problems"], "invalid" if report["dry_run"] else "left out")


def _kind(row: Row) -> str:
    return single(row["kind"].replace("_", " "))


def _kinds(rows: list[Row]) -> list[str]:
    return [row["kind"] for row in rows]


def _print_problems(problems: list[Row], label: str = "invalid") -> None:
    for row in problems:
        named = " to ".join(str(row[key]) for key in ("name", "user", "source", "destination") if key in row)
        place = f" in vhost '{row['vhost']}'" if row.get("vhost") is not None else ""
        line = f"{label}: {_kind(row)} '{named}'{place}: {row['cause']}; {row['remedy']}"
        sys.stderr.write(f"{printable(line)}\n")
