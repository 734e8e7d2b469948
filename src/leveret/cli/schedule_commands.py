"""``leveret schedules``."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import AS_JSON, VHOST, at_broker, group, vhost_in
from leveret.cli.printing import print_json, say
from leveret.cli.tables import UNKNOWN, Column, draw, name, size

app = group("Messages that wait for their time.")


def moment(value: Any) -> str:
    """A wall time, in UTC."""
    try:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (TypeError, ValueError, OverflowError, OSError):
        return UNKNOWN if value is None else str(value)


COLUMNS = (
    Column("id", "id"),
    Column("due", "due", moment),
    Column("exchange", "exchange", name),
    Column("routing key", "routing_key"),
    Column("size", "size", size),
)


@app.command("list")
@at_broker
def list_schedules(
    api: Api,
    limit: int = typer.Option(100, "--limit", metavar="N", min=1, max=1000, help="at most so many"),
    after: str | None = typer.Option(None, "--after", metavar="PLACE", help="go on where another list ended"),
    vhost: str | None = VHOST,
    as_json: bool = AS_JSON,
) -> None:
    """List messages that are to be routed later, those that come first at the top."""
    answer = api.get("schedules", vhost_in(api, vhost), query={"limit": limit, "after": after})
    if as_json:
        print_json(answer)
        return
    page = answer.value
    draw(COLUMNS, page["messages"], "Nothing waits for its time. Publish with the header x-delay to an exchange.")
    if page["next"] is not None:
        sys.stderr.write(f"There are {page['count']} in all: leveret schedules list --after {page['next']}\n")


@app.command("cancel")
@at_broker
def cancel_schedule(api: Api, id_: str = typer.Argument(metavar="ID"), vhost: str | None = VHOST) -> None:
    """Cancel one: it is never routed."""
    api.delete("schedules", vhost_in(api, vhost), id_)
    say(f"message '{id_}' cancelled")
