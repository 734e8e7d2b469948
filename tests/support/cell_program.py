"""One cell of several as a program, for tests that put each cell on a machine of its own.

It is what ``leveret serve --cells`` runs in each of its processes, with addresses that are given. ``--interval`` and
``--patience`` shorten the times of links: seconds between two checks, and for which publishes wait. ``--broken``: the
cell breaks its promises, to show that the check of a test finds that.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import deque

from leveret.cells import definition_requests, remote_publishes, request_channel
from leveret.cells.remote_consumer import RemoteConsumer
from leveret.cells.remote_publishes import RemotePublishes
from leveret.cells_node import CellNode, CellPlan
from leveret.cli.cell_processes import NoTerminal
from leveret.cli.serve import collect_garbage_rarely, raise_file_limit, run
from leveret.cluster import cell_links
from leveret.config_sources import load_settings
from leveret.delivery.receipts import Receipt
from leveret.logs import configure_logs
from leveret.message import Message

SECRET = b"the secret of all cells of a test"


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests.support.cell_program", description=__doc__)
    parser.add_argument("--cells", type=int, required=True)
    parser.add_argument("--first", help="HOST:PORT of the cluster port of the first cell")
    parser.add_argument("--interval", type=float)
    parser.add_argument("--patience", type=float)
    parser.add_argument("serve")
    parser.add_argument("--node-name")
    parser.add_argument("--data-dir")
    parser.add_argument("--amqp-port")
    parser.add_argument("--http-port")
    parser.add_argument("--cluster-port", type=int)
    parser.add_argument("--host")
    parser.add_argument("--cluster-host")
    parser.add_argument("--broken", action="store_true")
    return parser.parse_args(arguments)


def shorten(interval: float | None, patience: float | None) -> None:
    if interval is not None:
        cell_links.CHECK_INTERVAL = interval
    if patience is not None:
        for module in (definition_requests, remote_publishes, request_channel):
            module.PATIENCE = patience


def break_promises() -> None:
    send, resume, delivered = RemotePublishes._send, RemotePublishes.resume, RemoteConsumer.delivered

    def confirm_early(publishes: RemotePublishes, run: list[Message], size: int, receipt: Receipt) -> None:
        send(publishes, run, size, receipt)
        receipt.granted()

    def reverse(publishes: RemotePublishes) -> None:
        publishes._unsent = deque(reversed(publishes._unsent))
        resume(publishes)

    def deliver_unmarked(consumer: RemoteConsumer, tag: int, run: list[Message], redelivered: bool) -> None:
        delivered(consumer, tag, run, False)

    RemotePublishes._send = confirm_early  # type: ignore[method-assign]
    RemotePublishes.resume = reverse  # type: ignore[method-assign]
    RemoteConsumer.delivered = deliver_unmarked  # type: ignore[method-assign]


def plan_of(options: argparse.Namespace) -> CellPlan:
    first = None
    if options.first is not None:
        host, _, port = options.first.rpartition(":")
        first = host, int(port)
    address = options.cluster_host, options.cluster_port
    return CellPlan(options.node_name, options.cells, SECRET, first, address)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    flags = {
        "data_dir": options.data_dir,
        "host": options.host,
        "amqp_port": options.amqp_port,
        "http_port": options.http_port,
        "stomp_port": "off",
        "queue_leader_locator": "client-local",
        "connections_follow_queues": "off",
    }
    settings = load_settings(None, os.environ, flags)
    shorten(options.interval, options.patience)
    if options.broken:
        break_promises()
    configure_logs(settings.log_format, settings.log_level)
    collect_garbage_rarely()
    raise_file_limit()
    return run(CellNode(settings, plan_of(options)), NoTerminal(), lambda: settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
