"""``leveret leases`` and ``leveret spark``."""

from __future__ import annotations

import typer

from leveret.cli.api_client import Api
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, VHOST, YES, at_broker, confirm, group, listed_at, vhost_in
from leveret.cli.completing import names_of
from leveret.cli.printing import print_json, say
from leveret.cli.tables import Column, count, draw, duration, numbered, rate, size

app = group("Messages of classic queues that readers hold.")
spark_app = group("Spark queries that read from the broker.")

COLUMNS = (
    Column("vhost", "vhost"),
    Column("queue", "queue"),
    Column("consumer", "consumer"),
    Column("lease", "lease", count),
    Column("messages", "messages", count),
    Column("size", "bytes", size),
    Column("age", "age", duration),
)
TRANSACTIONS = (
    Column("transaction", "transaction"),
    Column("owner", "owner"),
    Column("last batch", "last_batch", count),
    Column("messages", "messages", count),
)
QUERIES = (
    Column("name", "name"),
    Column("state", "state"),
    Column("lag", "lag", count),
    Column("in", "input_rows_per_second", rate),
    Column("done", "rows_per_second", rate),
    Column("batch", "batch", count),
    Column("rows", "rows", count),
    Column("last heard", "silent_for", duration),
    Column("vhost", "vhost"),
    Column("user", "user"),
    Column("sink", "sink"),
    Column("id", "id"),
)


@app.command("list")
@at_broker
def list_leases(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List leases: who was given which messages and has not committed them."""
    answer = api.get(*listed_at(api, "leases", vhost))
    if as_json:
        print_json(answer)
    else:
        draw(COLUMNS, answer.rows, "No leases. Readers of classic queues in Spark take them.")


@app.command("release")
@at_broker
def release_leases(
    api: Api,
    queue: str = typer.Argument(metavar="QUEUE", autocompletion=names_of("queues")),
    consumer: str = typer.Argument(metavar="CONSUMER", help="as leveret leases list shows it"),
    lease: int | None = typer.Option(None, "--lease", metavar="N", min=1, help="this one only"),
    vhost: str | None = VHOST,
    yes: bool = YES,
) -> None:
    """Have messages go back to their queue. Without --lease all of the consumer's, and it is forgotten."""
    confirm(f"Take back what consumer '{consumer}' holds of queue '{queue}'? If it still runs, others get it too.", yes)
    query = {"queue": queue, "consumer": consumer, "lease": lease}
    released = api.delete("pipeline", vhost_in(api, vhost), "leases", query=query).value["released"]
    say(f"{numbered(released, 'messages')} {'is' if released == 1 else 'are'} back in queue '{queue}'")


@spark_app.command("list")
@at_broker
def list_queries(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
    """List Spark queries and how far they are behind."""
    answer = api.get(*listed_at(api, "spark-queries", vhost), query={"sort": "name"})
    if as_json:
        print_json(answer)
    else:
        draw(QUERIES, answer.rows, "No Spark query has told of itself in the last hour. Add LeveretListener to Spark.")


@spark_app.command("transactions")
@at_broker
def list_transactions(
    api: Api,
    vhost: str | None = VHOST,
    start: int = typer.Option(0, "--start", metavar="N", min=0, help="skip the first N"),
    as_json: bool = AS_JSON,
) -> None:
    """List transactions of the sink and their last batch, up to 1,000, the least recently committed first."""
    answer = api.get("pipeline", vhost_in(api, vhost), "commits", query={"start": start})
    if as_json:
        print_json(answer)
    else:
        draw(TRANSACTIONS, answer.value["commits"], "No transactions. The exactly-once sink of Spark creates them.")


@spark_app.command("delete-transaction")
@at_broker
def delete_transaction(
    api: Api,
    transaction: str = typer.Argument(metavar="TRANSACTION", help="as leveret spark transactions shows it"),
    owner_only: bool = typer.Option(False, "--owner-only", help="keep its last batch, and let another user go on"),
    vhost: str | None = VHOST,
    yes: bool = YES,
) -> None:
    """Delete a transaction of the sink: a batch that was committed can then be committed again."""
    risk = "The next user that commits to it owns it." if owner_only else "A batch that is repeated is published again."
    confirm(f"Delete {'the owner of ' if owner_only else ''}transaction '{transaction}'? {risk}", yes)
    query = {"transaction": transaction, "owner_only": "true" if owner_only else None}
    last = api.delete("pipeline", vhost_in(api, vhost), "commits", query=query).value["last_batch"]
    say(
        f"transaction '{transaction}' {'has no owner any more' if owner_only else 'deleted'}; its last batch was {last}"
    )


@spark_app.callback()
def _spark() -> None:
    """Spark queries that read from the broker."""
