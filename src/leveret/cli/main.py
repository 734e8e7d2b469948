"""The ``leveret`` command. Each subcommand imports what it needs when it runs: ``serve`` must listen in a second."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from leveret.cli.flags import with_settings
from leveret.cli.version import version
from leveret.errors import ConfigError

app = typer.Typer(
    name="leveret",
    help="A message broker that any RabbitMQ client can use unchanged.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at the settings before they are used.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config_app, name="config")


def main() -> None:
    """The entry point: a setting that cannot be used is one line and exit code 2, never a trace."""
    try:
        app()
    except ConfigError as problem:
        sys.stderr.write(f"leveret: {problem}\n")
        sys.exit(2)


@app.callback()
def _root(
    show_version: bool = typer.Option(False, "--version", is_eager=True, callback=lambda value: _print_version(value)),
) -> None:
    """A message broker that any RabbitMQ client can use unchanged."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"leveret {version()}")
        raise typer.Exit()


@app.command("serve")
@with_settings
def _serve(config: Path | None, flags: dict[str, object]) -> None:
    """Run the broker until it is told to stop (Ctrl-C or SIGTERM)."""
    from leveret.cli.serve import serve

    raise typer.Exit(serve(config, os.environ, flags))


@config_app.command("check")
@with_settings
def _check(config: Path | None, flags: dict[str, object]) -> None:
    """Say whether the broker would accept these settings."""
    from leveret.cli.settings import check

    typer.echo(check(config, os.environ, flags))


@config_app.command("show")
@with_settings
def _show(
    config: Path | None, flags: dict[str, object], json: bool = typer.Option(False, "--json", help="as JSON")
) -> None:
    """Show every setting with its value and where that came from; secrets stay hidden."""
    from leveret.cli.settings import show, show_json

    typer.echo((show_json if json else show)(config, os.environ, flags))


if __name__ == "__main__":
    main()
