"""The ``leveret`` command. Each subcommand imports what it needs when it runs: ``serve`` must listen in a second."""

from __future__ import annotations

import os
import sys
from errno import EBADF, EIO, ENOSPC
from pathlib import Path

import typer

from leveret.cli.flags import with_settings
from leveret.cli.later_commands import LaterGroup
from leveret.cli.version import version
from leveret.errors import ConfigError

NOT_WRITTEN = (ENOSPC, EIO, EBADF)  # by standard output

app = typer.Typer(
    name="leveret",
    cls=LaterGroup,
    help="A message broker that any RabbitMQ client can use unchanged.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Look at the settings before they are used.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config_app, name="config")
pipeline_app = typer.Typer(help="Ready pipelines on Spark.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(pipeline_app, name="pipeline")


def _stand_in_for_closed_streams() -> None:
    """Whoever started us may have closed any of the three, and then Python has None in its place."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def main() -> None:
    """The entry point: a setting that cannot be used is one line and exit code 2, never a trace."""
    if "_LEVERET_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()  # a shell asks what could follow
    _stand_in_for_closed_streams()
    try:
        app()
    except ConfigError as problem:
        sys.stderr.write(f"leveret: {problem}\n")
        sys.exit(2)
    except OSError as problem:
        if problem.errno not in NOT_WRITTEN:
            raise
        sys.stderr.write(f"leveret: the output cannot be written: {problem.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or what waits in buffers would fail once more at the exit
        sys.exit(1)


@app.callback()
def _root(
    show_version: bool = typer.Option(
        False,
        "--version",
        is_eager=True,
        callback=lambda value: _print_version(value),
        help="Show the version and exit.",
    ),
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


DATA_DIR = typer.Argument(metavar="DATA_DIR", help="the folder of the messages, as in leveret serve --data-dir")
NEW_DATA_DIR = typer.Argument(metavar="DATA_DIR", help="a folder that is empty or does not exist")
BACKUP = typer.Argument(metavar="BACKUP", help="what leveret backup made")
TARGET = typer.Argument(metavar="TARGET", help="a folder that is empty or does not exist")


@app.command("check")
def _check_data(
    data_dir: Path = DATA_DIR,
    as_json: bool = typer.Option(False, "--json", help="as JSON"),
) -> None:
    """Read all that a stopped broker left, and say whether it is sound; nothing is changed.

    Exit code 0: sound; 1: damaged; 2: cannot be read.
    """
    from leveret.cli.data import check, run

    raise typer.Exit(run(lambda: check(data_dir, as_json)))


@app.command("dump")
def _dump(
    data_dir: Path = DATA_DIR,
    queue: str | None = typer.Option(None, metavar="NAME", help="of this queue only"),
    vhost: str | None = typer.Option(None, metavar="NAME", help="of this virtual host only"),
    limit: int | None = typer.Option(None, metavar="N", min=0, help="at most N messages of each queue"),
    bodies: bool = typer.Option(False, "--bodies", help="with the bodies of the messages"),
) -> None:
    """Write definitions and messages that a stopped broker left, one JSON object a line."""
    from leveret.cli.data import dump, run

    raise typer.Exit(run(lambda: dump(data_dir, queue, vhost, limit, bodies)))


@app.command("backup")
def _backup(
    data_dir: Path = DATA_DIR,
    target: Path = TARGET,
    timeout: float = typer.Option(600.0, metavar="SECONDS", help="how long to wait for a running broker"),
) -> None:
    """Copy a data directory as of one moment, while its broker goes on."""
    from leveret.cli.data import backup, run

    raise typer.Exit(run(lambda: backup(data_dir, target, timeout)))


@app.command("restore")
def _restore(
    source: Path = BACKUP,
    data_dir: Path = NEW_DATA_DIR,
    force: bool = typer.Option(False, "--force", help="also when the backup is damaged"),
) -> None:
    """Make a data directory out of a backup; the backup stays as it is."""
    from leveret.cli.data import restore, run

    raise typer.Exit(run(lambda: restore(source, data_dir, force)))


@pipeline_app.command("list")
def _list_pipelines() -> None:
    """Name the pipelines that are there, and say what each does."""
    from leveret.cli.pipeline import list_pipelines

    typer.echo(list_pipelines())


# What follows the name is for the pipeline, --help too.
OF_THE_PIPELINE = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@pipeline_app.command("run", context_settings=OF_THE_PIPELINE, add_help_option=False)
def _run_pipeline(context: typer.Context, name: str = typer.Argument("", metavar="NAME")) -> None:
    """Run a pipeline: NAME --help shows its options."""
    from leveret.cli.pipeline import run_pipeline

    run_pipeline(name, context.args, context.command_path)


if __name__ == "__main__":
    main()
