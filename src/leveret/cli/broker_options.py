"""What every command has that asks a running broker: where it is, who asks, and how a problem ends the command.

Exit codes: 1 if the broker refuses, 2 if the command was given something it cannot use, 3 if no broker answers.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from typing import Any, get_type_hints

import typer

from leveret.cli.api_client import Api, CommandProblem, Misuse
from leveret.cli.completing import contexts_known, names_of
from leveret.cli.contexts import login_of
from leveret.cli.tables import printable

VHOST = typer.Option(
    None,
    "--vhost",
    metavar="NAME",
    help="the virtual host  [default: of the context, or /]",
    autocompletion=names_of("vhosts"),
)
ANY_VHOST = typer.Option(
    None, "--vhost", metavar="NAME", help="of this virtual host only", autocompletion=names_of("vhosts")
)
AS_JSON = typer.Option(False, "--json", help="as JSON, exactly as the API answers")
ARGUMENTS = typer.Option(
    [], "--argument", metavar="KEY=VALUE", help="an argument; the value is read as JSON or as text"
)
YES = typer.Option(False, "--yes", help="do not ask")
DEFAULT_EXCHANGE = "amq.default"

WHERE = {
    "url": typer.Option(None, "--url", metavar="URL", help="the broker's HTTP port  [default: http://127.0.0.1:15672]"),
    "username": typer.Option(None, "--username", metavar="NAME", help="who asks  [default: guest]"),
    "context": typer.Option(
        None,
        "--context",
        metavar="NAME",
        help="a broker known by name, see leveret context",
        autocompletion=contexts_known,
    ),
    "password_file": typer.Option(
        None, "--password-file", metavar="FILE", help="a file with mode 600  [or LEVERET_PASSWORD]"
    ),
    "ca_file": typer.Option(
        None, "--ca-file", metavar="FILE", help="the authority that signed the broker's certificate, for https"
    ),
}


def group(text: str) -> typer.Typer:
    """Commands of one kind of object."""
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def alone() -> typer.Typer:
    """For a single command."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


def at_broker(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the options above; it is given the API, then its own parameters by name.

    A parameter that is a NamedTuple stands for an option per field: commands share options so.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    bundles = {item.name: item.annotation for item in own if hasattr(item.annotation, "_fields")}

    def run(**given: Any) -> None:
        where = {name: given.pop(name) for name in WHERE}
        for name, bundle in bundles.items():
            given[name] = bundle(**{field: given.pop(field) for field in bundle._fields})

        told(lambda: command(Api(login_of(os.environ, **where)), **given))

    parameters = [each for item in own for each in _options_of(item)]
    parameters += [_option(name, str | None, default) for name, default in WHERE.items()]
    run.__name__ = command.__name__
    run.__doc__ = command.__doc__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    bundle = parameter.annotation
    if not hasattr(bundle, "_fields"):
        return [_option(parameter.name, bundle, parameter.default)]
    kinds = get_type_hints(bundle)
    return [_option(field, kinds[field], bundle._field_defaults[field]) for field in bundle._fields]


def _option(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def told(command: Callable[[], None]) -> None:
    """Run it; a problem is one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may hold letters that this terminal lacks
    try:
        command()
    except CommandProblem as problem:
        sys.stderr.write(f"leveret: {printable(str(problem))}\n")
        raise typer.Exit(problem.exit_code) from None


def vhost_in(api: Api, given: str | None) -> str:
    return given or api.vhost or "/"


def exchange_in(name: str) -> str:
    """The exchange without a name has one in paths."""
    return name or DEFAULT_EXCHANGE


def listed_at(api: Api, kind: str, vhost: str | None) -> tuple[str, ...]:
    """The path of a list: of one virtual host, or of all that the user may see."""
    only = vhost or api.vhost
    return (kind,) if only is None else (kind, only)


def pairs(given: list[str], flag: str) -> dict[str, Any]:
    """``KEY=VALUE`` as it is written; what is JSON counts as such: 10 is a number, "10" with its quotes a text."""
    import json

    found: dict[str, Any] = {}
    for item in given:
        key, is_there, text = item.partition("=")
        if not is_there or not key:
            raise Misuse(f"{flag} {item!r} cannot be used: write it as KEY=VALUE")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def confirm(question: str, yes: bool) -> None:
    """At a terminal, what cannot be undone is asked about; a script is taken at its word."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise Misuse("nothing was done")
