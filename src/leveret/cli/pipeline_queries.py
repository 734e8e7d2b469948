"""``leveret pipeline list`` with options: the Spark queries that reported to a broker."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api, Misuse
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, at_broker, listed_at, single_command
from leveret.cli.lease_commands import QUERIES
from leveret.cli.output import print_line, print_list
from leveret.cli.pipeline import list_pipelines
from leveret.cli.tables import Column, count

app = single_command()
RUNNING = typer.Option(False, "--running", help="List Spark queries that reported to the broker in the last hour.")
COLUMNS = (*QUERIES, Column("state rows", "state_rows", count), Column("error", "error"))
EMPTY = "No Spark queries in the last hour. Run a pipeline, or add LeveretListener to your Spark session."


@app.command("list")
@at_broker
def list_queries(api: Api, running: bool = RUNNING, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List the built-in pipelines, or with --running the Spark queries that a broker knows."""
    if running:
        print_list(api.get(*listed_at(api, "spark-queries", vhost), query={"sort": "name"}), COLUMNS, EMPTY, as_json)
    elif as_json or vhost is not None:
        raise Misuse("--json and --vhost are options of the list of queries: add --running")
    else:
        print_line(list_pipelines())
