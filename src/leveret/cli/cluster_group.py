"""``leveret cluster``: the commands about a cell."""

from __future__ import annotations

from pathlib import Path

import typer

from leveret.cli import cluster_cells, cluster_commands, cluster_data_commands
from leveret.cli.broker_options import group, reported

app = group("Show and change a cell of several nodes, or run one on this machine.")

NODES = typer.Option(3, "--nodes", metavar="N", min=1, max=9, help="Number of nodes.")
CELLS = typer.Option(1, "--cells", metavar="N", min=1, max=9, help="Number of cells, with a member on every node.")
AMQP_PORT = typer.Option(
    None,
    "--amqp-port",
    metavar="PORT",
    min=1,
    max=65_000,
    help="AMQP port of the first node; the others have the next ones.  [default: free ports]",
)
HTTP_PORT = typer.Option(None, "--http-port", metavar="PORT", min=1, max=65_000, help="The same for HTTP.")
DATA_DIR = typer.Option(
    None, "--data-dir", metavar="DIR", help="Keep all data here.  [default: a temporary directory, removed at the end]"
)
RESTART = typer.Option(False, "--restart", help="Restart nodes and NATS servers that end.")
SECONDS = typer.Option(None, "--seconds", metavar="N", min=0, help="Stop after this many seconds.")

cluster_commands.register(app)
cluster_cells.register(app)
cluster_data_commands.register(app)


@app.command("demo")
@reported
def demo(
    nodes: int = NODES,
    cells: int = CELLS,
    amqp_port: int | None = AMQP_PORT,
    http_port: int | None = HTTP_PORT,
    data_dir: Path | None = DATA_DIR,
    restart: bool = RESTART,
    seconds: float | None = SECONDS,
) -> None:
    """Run a cell on this machine, or several: three NATS servers and three nodes, until Ctrl-C."""
    from leveret.cli.cluster_demo import DemoSize, run_demo

    run_demo(DemoSize(nodes, cells, amqp_port, http_port), data_dir, restart, seconds)
