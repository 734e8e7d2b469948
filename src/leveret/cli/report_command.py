"""``leveret report``: the state of a broker as one text, to attach to a question; without passwords and messages."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable

from leveret.cli.api_client import Api, NotSupported, Refusal
from leveret.cli.broker_options import at_broker, single_command
from leveret.cli.connection_commands import COLUMNS as CONNECTIONS
from leveret.cli.doctor_command import findings_at, print_findings
from leveret.cli.output import print_line
from leveret.cli.overview_commands import print_overview
from leveret.cli.policy_commands import COLUMNS as POLICIES
from leveret.cli.queue_commands import COLUMNS as QUEUES
from leveret.cli.tables import Column, print_table
from leveret.cli.vhost_commands import COLUMNS as VHOSTS
from leveret.version import VERSION

app = single_command()

MOST = 50  # rows of a list
Section = Callable[[Api], None]


@app.command()
@at_broker
def report(api: Api) -> None:
    """Print overview, problems, virtual hosts, policies, the longest queues and the connections, as one text."""
    print_line(f"leveret {VERSION}, Python {platform.python_version()}, {platform.platform()}")
    print_line(f"broker at {api.address.url}, user {api.username}")
    for title, section in SECTIONS.items():
        print_line(f"\n== {title} ==\n")
        sys.stdout.flush()
        try:
            section(api)
        except NotSupported:
            print_line("not supported by this broker")
        except Refusal as problem:
            print_line(f"not available: {problem}")


def _problems(api: Api) -> None:
    print_findings(*findings_at(api))


def _listed(kind: str, columns: tuple[Column, ...], sort: str = "", paged: bool = True) -> Section:
    """The first rows of a list; ``sort``: the field whose largest values come first."""

    def print_section(api: Api) -> None:
        query = {"page": 1, "page_size": MOST} if paged else {}
        answer = api.get(kind, query=query | ({"sort": sort, "sort_reverse": True} if sort else {})).value
        rows = answer["items"] if paged else answer
        print_table(columns, rows, "", sys.stdout) if rows else print_line("none")
        total = answer["filtered_count"] if paged else len(rows)
        if total > len(rows):
            print_line(f"{total - len(rows)} more")

    return print_section


SECTIONS: dict[str, Section] = {
    "overview": lambda api: print_overview(api, api.get("overview").value),
    "problems": _problems,
    "vhosts": _listed("vhosts", tuple(VHOSTS), paged=False),
    "policies": _listed("policies", POLICIES, paged=False),
    "queues with the most messages": _listed("queues", QUEUES, "messages"),
    "connections": _listed("connections", CONNECTIONS),
}
