"""Commands that most groups have in common: ``list`` prints a table of objects, ``show`` prints one object."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import typer

from leveret.cli.api_client import Api, Query
from leveret.cli.broker_options import ANY_VHOST, AS_JSON, at_broker, listed_at
from leveret.cli.output import print_list, print_object
from leveret.cli.tables import Column


def list_command(
    app: typer.Typer,
    kind: str,
    columns: Sequence[Column],
    *,
    help: str,
    empty: str,
    by_vhost: bool = True,
    query: Query | None = None,
) -> None:
    """Add a command ``list`` for the objects that the API lists under ``kind``; ``by_vhost``: with ``--vhost``."""

    def list_objects(api: Api, as_json: bool = AS_JSON) -> None:
        print_list(api.get(kind, query=query), columns, empty, as_json)

    def list_by_vhost(api: Api, vhost: str | None = ANY_VHOST, as_json: bool = AS_JSON) -> None:
        print_list(api.get(*listed_at(api, kind, vhost), query=query), columns, empty, as_json)

    app.command("list", help=help)(at_broker(list_by_vhost if by_vhost else list_objects))


def show_command(app: typer.Typer, kind: str, name: Any, columns: Sequence[Column], *, help: str) -> None:
    """Add a command ``show`` for one object; ``name``: the argument that identifies it."""

    def show_object(api: Api, name: str = name, as_json: bool = AS_JSON) -> None:
        print_object(api.get(kind, name), columns, as_json)

    app.command("show", help=help)(at_broker(show_object))
