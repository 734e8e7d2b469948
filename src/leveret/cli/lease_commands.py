"""``leveret leases`` and ``leveret spark``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import AS_JSON, VHOST, YES, at_broker, confirm, group, vhost_in
from leveret.cli.name_completion import names_of
from leveret.cli.object_commands import list_command
from leveret.cli.output import print_line, print_list
from leveret.cli.tables import Column, columns, count, duration, numbered, rate, size

app = group("List and release leases: messages of classic queues held by Spark readers.")
spark_app = group("List Spark queries; list and delete transactions of the exactly-once sink.")

COLUMNS = (
    *columns("vhost", "queue", "consumer"),
    *columns("lease", "messages", shown=count),
    Column("size", "bytes", size),
    Column("age", "age", duration),
)
TRANSACTIONS = (
    *columns("transaction", "owner"),
    *columns("last_batch", "messages", shown=count),
)
QUERIES = (
    *columns("name", "state"),
    Column("lag", "lag", count),
    *columns(shown=rate, input="input_rows_per_second", processed="rows_per_second"),
    *columns("batch", "rows", shown=count),
    Column("last report", "silent_for", duration),
    *columns("vhost", "user", "sink", "id"),
)


list_command(
    app,
    "leases",
    COLUMNS,
    help="List leases: messages delivered to a Spark reader and not yet committed.",
    empty="No leases. Spark readers of classic queues create them.",
)


@app.command("release")
@at_broker
def release_leases(
    api: Api,
    queue: str = typer.Argument(metavar="QUEUE", help="Queue name.", autocompletion=names_of("queues")),
    consumer: str = typer.Argument(metavar="CONSUMER", help="Consumer name, see 'leveret leases list'."),
    lease: int | None = typer.Option(None, "--lease", metavar="N", min=1, help="Only this lease."),
    vhost: str | None = VHOST,
    yes: bool = YES,
) -> None:
    """Requeue leased messages. Without --lease, release all leases of the consumer and remove it."""
    confirm(
        f"Requeue the messages of '{queue}' leased by '{consumer}'? If it still runs, they are processed twice.", yes
    )
    query = {"queue": queue, "consumer": consumer, "lease": lease}
    released = api.delete("pipeline", vhost_in(api, vhost), "leases", query=query).value["released"]
    print_line(f"{numbered(released, 'messages')} requeued to queue '{queue}'")


list_command(
    spark_app,
    "spark-queries",
    QUERIES,
    help="List Spark queries with their rates and lag.",
    empty="No Spark queries in the last hour. Add LeveretListener to the Spark session.",
    query={"sort": "name"},
)


@spark_app.command("transactions")
@at_broker
def list_transactions(
    api: Api,
    vhost: str | None = VHOST,
    start: int = typer.Option(0, "--start", metavar="N", min=0, help="Skip the first N."),
    as_json: bool = AS_JSON,
) -> None:
    """List sink transactions and their last batch: at most 1,000, least recently committed first."""
    answer = api.get("pipeline", vhost_in(api, vhost), "commits", query={"start": start})
    print_list(answer, TRANSACTIONS, "No transactions. Spark's exactly-once sink creates them.", as_json, "commits")


@spark_app.command("delete-transaction")
@at_broker
def delete_transaction(
    api: Api,
    transaction: str = typer.Argument(
        metavar="TRANSACTION", help="Transaction name, see 'leveret spark transactions'."
    ),
    owner_only: bool = typer.Option(False, "--owner-only", help="Remove only the owner, and keep the last batch."),
    vhost: str | None = VHOST,
    yes: bool = YES,
) -> None:
    """Delete a sink transaction. A batch that was committed can then be committed again."""
    risk = "The next user that commits becomes its owner." if owner_only else "A repeated batch is published again."
    confirm(f"Delete {'the owner of ' if owner_only else ''}transaction '{transaction}'? {risk}", yes)
    query = {"transaction": transaction, "owner_only": "true" if owner_only else None}
    last = api.delete("pipeline", vhost_in(api, vhost), "commits", query=query).value["last_batch"]
    print_line(f"transaction '{transaction}' {'has no owner' if owner_only else 'deleted'}; its last batch was {last}")


@spark_app.callback()
def _spark() -> None:
    """List Spark queries; list and delete transactions of the exactly-once sink."""
