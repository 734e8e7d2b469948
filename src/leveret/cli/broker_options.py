"""The options of every command that connects to a broker (address and credentials), and how errors end a command.

Exit codes: 1 the broker refused the request, 2 invalid usage, 3 no broker answered.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, get_type_hints

import typer

from leveret.cli.api_client import Api, CommandProblem, Misuse
from leveret.cli.contexts import login_of
from leveret.cli.flags import option, with_parameters
from leveret.cli.name_completion import context_names, names_of
from leveret.cli.tables import printable

VHOST = typer.Option(
    None,
    "--vhost",
    metavar="NAME",
    help="Virtual host.  [default: that of the context, or /]",
    autocompletion=names_of("vhosts"),
)
ANY_VHOST = typer.Option(
    None, "--vhost", metavar="NAME", help="Only this virtual host.", autocompletion=names_of("vhosts")
)
AS_JSON = typer.Option(False, "--json", help="Print JSON exactly as the API returned it.")
ARGUMENTS = typer.Option(
    [], "--argument", metavar="KEY=VALUE", help="Optional argument; repeatable. The value is JSON or text."
)
YES = typer.Option(False, "--yes", help="Do not ask for confirmation.")
DEFAULT_EXCHANGE = "amq.default"

WHERE = {
    "url": typer.Option(
        None, "--url", metavar="URL", help="HTTP address of the broker.  [default: http://127.0.0.1:15672]"
    ),
    "username": typer.Option(None, "--username", metavar="NAME", help="User name.  [default: guest]"),
    "context": typer.Option(
        None,
        "--context",
        metavar="NAME",
        help="Named broker, see 'leveret context'.",
        autocompletion=context_names,
    ),
    "password_file": typer.Option(
        None, "--password-file", metavar="FILE", help="File with the password, mode 600.  [env: LEVERET_PASSWORD]"
    ),
    "ca_file": typer.Option(
        None, "--ca-file", metavar="FILE", help="CA certificate (PEM) to verify the broker, for https."
    ),
}


def group(text: str) -> typer.Typer:
    """A group of commands for one kind of object."""
    return typer.Typer(
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )


def single_command() -> typer.Typer:
    """An application with a single command."""
    return typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)


def at_broker(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options above to a command, which is called with the API client and then its own parameters by name.

    A parameter whose type is a NamedTuple becomes one option per field; commands share options this way.
    """
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    bundles = {item.name: item.annotation for item in own if hasattr(item.annotation, "_fields")}

    def run(**given: Any) -> None:
        where = {name: given.pop(name) for name in WHERE}
        for name, bundle in bundles.items():
            given[name] = bundle(**{field: given.pop(field) for field in bundle._fields})

        run_command(lambda: command(Api(login_of(os.environ, **where)), **given))

    parameters = [each for item in own for each in _options_of(item)]
    parameters += [option(name, str | None, default) for name, default in WHERE.items()]
    return with_parameters(run, parameters, command)


def _options_of(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    bundle = parameter.annotation
    if not hasattr(bundle, "_fields"):
        return [option(parameter.name, bundle, parameter.default)]
    kinds = get_type_hints(bundle)
    return [option(field, kinds[field], bundle._field_defaults[field]) for field in bundle._fields]


def run_command(command: Callable[[], None]) -> None:
    """Run the command; print an error as one line on standard error and set the exit code."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a name may have characters that the terminal cannot print
    try:
        command()
    except CommandProblem as problem:
        sys.stderr.write(f"leveret: {printable(str(problem))}\n")
        raise typer.Exit(problem.exit_code) from None


def reported(command: Callable[..., None]) -> Callable[..., None]:
    """Report the errors of a command that does not connect to a broker, as ``run_command`` does."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        run_command(lambda: command(*arguments, **options))

    return run


def vhost_in(api: Api, given: str | None) -> str:
    return given or api.vhost or "/"


def exchange_in(name: str) -> str:
    """The name of the exchange in API paths; the default exchange has an empty name."""
    return name or DEFAULT_EXCHANGE


ROUTING_KEY = typer.Option(None, "--routing-key", metavar="KEY", help="The same as the argument ROUTING_KEY.")


def listed_at(api: Api, kind: str, vhost: str | None) -> tuple[str, ...]:
    """The API path of a list: of one virtual host, or of all that the user may access."""
    only = vhost or api.vhost
    return (kind,) if only is None else (kind, only)


def pairs(given: list[str], flag: str) -> dict[str, Any]:
    """Parse ``KEY=VALUE`` items. A value that is valid JSON is parsed as JSON, any other is a string."""
    import json

    found: dict[str, Any] = {}
    for item in given:
        key, is_there, text = item.partition("=")
        if not is_there or not key:
            raise Misuse(f"invalid {flag} {item!r}: write it as KEY=VALUE")
        try:
            found[key] = json.loads(text)
        except ValueError:
            found[key] = text
    return found


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of an error for an unknown name."""
    from difflib import get_close_matches

    near = get_close_matches(name, known, 1)
    return f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(sorted(known))}"


def confirm(question: str, yes: bool) -> None:
    """Ask before an irreversible change, if standard input is a terminal; scripts are not asked."""
    if not yes and sys.stdin.isatty() and not typer.confirm(question, err=True):
        raise Misuse("cancelled, nothing was changed")
