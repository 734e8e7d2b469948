"""``leveret ping`` and ``leveret wait``: whether a broker answers, and whether it is ready for clients.

They need no password, for probes and scripts. While the broker recovers its data, the HTTP port responds with 503.
"""

from __future__ import annotations

import time

import typer

from leveret.cli.api_client import Api, NotReachable
from leveret.cli.broker_options import at_broker, single_command
from leveret.cli.output import print_line

ping_app, wait_app = single_command(), single_command()

PROBE = 5.0  # seconds for one response
INTERVAL = 0.25  # seconds between two attempts
TIMEOUT = typer.Option(60.0, "--timeout", metavar="SECONDS", min=0.1, help="How long to wait.")


@ping_app.command()
@at_broker
def ping(
    api: Api,
    timeout: float = typer.Option(PROBE, "--timeout", metavar="SECONDS", min=0.1, help="How long to wait."),
) -> None:
    """Test whether the broker answers over HTTP, without a login; the exit code is 3 if it does not."""
    begun = time.monotonic()
    api.ping(timeout)
    print_line(f"{api.address.url} answered within {(time.monotonic() - begun) * 1000:.0f} ms")


@wait_app.command()
@at_broker
def wait(api: Api, timeout: float = TIMEOUT) -> None:
    """Wait until the broker is ready for clients; the exit code is 3 if it is not in time.

    A broker that starts, stops, or whose store has failed is not ready.
    """
    begun = time.monotonic()
    deadline = begun + timeout
    while True:
        try:
            api.check_ready(max(min(PROBE, deadline - time.monotonic()), 0.1))
            print_line(f"{api.address.url} is ready after {time.monotonic() - begun:.1f} s")
            return
        except NotReachable as problem:
            if time.monotonic() + INTERVAL >= deadline:
                raise NotReachable(f"the broker is not ready after {timeout:g} s: {problem}") from None
        time.sleep(INTERVAL)
