"""``leveret definitions``: all that is declared, into a file and out of one; RabbitMQ's own files are taken too."""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import typer

from leveret.cli.api_client import Api, Misuse, Refusal, Row
from leveret.cli.broker_options import AS_JSON, at_broker, group
from leveret.cli.printing import print_json, say
from leveret.cli.tables import numbered, printable, single, text

app = group("Definitions: vhosts, users, permissions, policies, exchanges, queues, bindings.")

SECONDS = 600.0  # for a large import
VHOST = typer.Option(None, "--vhost", metavar="NAME", help="of this virtual host only, without users and permissions")
TARGET = typer.Argument(None, metavar="[FILE]", help="without it: standard output")
STATES = (("created", "created"), ("changed", "changed"), ("existing", "there already"))


@app.command("export")
@at_broker
def export_definitions(
    api: Api,
    file: Path | None = TARGET,
    vhost: str | None = VHOST,
) -> None:
    """Write all definitions as JSON; with the hashes of passwords, so the file is for its owner only."""
    answer = api.get("definitions", *([] if vhost is None else [vhost]))
    if file is None:
        print_json(answer)
        return
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            if hasattr(os, "fchmod"):
                os.fchmod(descriptor, 0o600)  # a file that was there keeps its mode otherwise
            out.write(json.dumps(answer.value, indent=2, ensure_ascii=False).encode() + b"\n")
    except OSError as problem:
        raise Misuse(f"{file} cannot be written: {problem.strerror}") from None
    say(f"{_sum(answer.value)} written to {file}")


def _sum(definitions: Row) -> str:
    numbers = {kind: len(rows) for kind, rows in definitions.items() if isinstance(rows, list) and rows}
    return ", ".join(numbered(number, kind.replace("_", " ")) for kind, number in numbers.items()) or "nothing"


@app.command("import")
@at_broker
def import_definitions(
    api: Api,
    file: str = typer.Argument(metavar="FILE", help="as export wrote it, or RabbitMQ; - is standard input"),
    vhost: str | None = typer.Option(None, "--vhost", metavar="NAME", help="into this virtual host"),
    dry_run: bool = typer.Option(False, "--dry-run", help="say what would happen, and change nothing"),
    as_json: bool = AS_JSON,
) -> None:
    """Take definitions in: all of them, or none if one cannot be taken; exit code 1 in that case."""
    body = _read(file)
    path = ["definitions"] if vhost is None else ["definitions", vhost]
    try:
        answer = api.post(*path, value=body, query={"dry_run": dry_run or None}, seconds=SECONDS)
    except Refusal as problem:
        _tell_problems(problem.answer.get("problems") or [])
        raise
    if not dry_run:
        say("{}" if as_json else f"{_sum(json.loads(body))} imported")
        return
    if as_json:
        print_json(answer)
    report: Row = answer.value
    if not as_json:
        _tell_report(report)
    if report["problems"]:
        number = len(report["problems"])
        raise Refusal(f"{file} would not be imported: {number} of its objects cannot be taken, see above")


def _read(file: str) -> bytes:
    try:
        body = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        definitions = json.loads(body)
    except OSError as problem:
        raise Misuse(f"{file} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise Misuse(f"{file} is not JSON: {problem}") from None
    if not isinstance(definitions, dict):
        raise Misuse(f"{file} holds no definitions: it must be a JSON object with queues, exchanges and so on")
    return body


def _tell_report(report: Row) -> None:
    """Numbers by kind, then the objects that would be new or other than before."""
    for state, words in STATES:
        rows = report[state]
        numbers = ", ".join(numbered(number, kind.replace("_", " ")) for kind, number in Counter(_kinds(rows)).items())
        say(f"{words}: {numbers or 'nothing'}")
        for row in rows if state != "existing" else ():
            place = f" in vhost '{printable(row['vhost'])}'" if row.get("vhost") is not None else ""
            say(f"  {_kind(row)} '{printable(row['name'])}'{place}")
    if report.get("ignored"):
        say(f"passed over, unknown here: {text(report['ignored'])}")
    _tell_problems(report["problems"])


def _kind(row: Row) -> str:
    return single(row["kind"].replace("_", " "))


def _kinds(rows: list[Row]) -> list[str]:
    return [row["kind"] for row in rows]


def _tell_problems(problems: list[Row]) -> None:
    for row in problems:
        named = " to ".join(str(row[key]) for key in ("name", "user", "source", "destination") if key in row)
        place = f" in vhost '{row['vhost']}'" if row.get("vhost") is not None else ""
        told = f"cannot be taken: {_kind(row)} '{named}'{place}: {row['cause']}; {row['remedy']}"
        sys.stderr.write(f"{printable(told)}\n")
