"""The ``leveret`` command. Subcommands import what they need when they run, so that the command starts quickly."""

from __future__ import annotations

import os
import sys
from errno import EBADF, EIO, ENOSPC
from pathlib import Path

import typer

from leveret.cli.flags import with_settings
from leveret.cli.lazy_commands import LazyGroup
from leveret.errors import ConfigError
from leveret.version import VERSION

NOT_WRITTEN = (ENOSPC, EIO, EBADF)  # errors of standard output

app = typer.Typer(
    name="leveret",
    cls=LazyGroup,
    help="A message broker that any RabbitMQ client can use unchanged.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
config_app = typer.Typer(help="Validate and show settings.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config_app, name="config")
pipeline_app = typer.Typer(
    help="List and run the built-in Spark pipelines.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(pipeline_app, name="pipeline")


def _stand_in_for_closed_streams() -> None:
    """Python sets a standard stream to None if the parent process closed it."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115


def main() -> None:
    """The entry point. An invalid setting is reported in one line, with exit code 2 and no traceback."""
    if "_LEVERET_COMPLETE" in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()  # called by a shell to complete a command line
    _stand_in_for_closed_streams()
    try:
        app()
    except ConfigError as problem:
        sys.stderr.write(f"leveret: {problem}\n")
        sys.exit(2)
    except OSError as problem:
        if problem.errno not in NOT_WRITTEN:
            raise
        sys.stderr.write(f"leveret: cannot write to standard output: {problem.strerror}\n")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # or flushing the buffers at exit would fail again
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
        typer.echo(f"leveret {VERSION}")
        raise typer.Exit()


@app.command("version")
def _version() -> None:
    """Show the version."""
    _print_version(True)


WORDS = typer.Argument(None, metavar="[COMMAND]...")


@app.command("help", hidden=True)
def _help(context: typer.Context, words: list[str] = WORDS) -> None:
    """Show this help, or that of a command."""
    assert context.parent is not None
    if words:
        app([*words, "--help"], prog_name=context.parent.info_name)
    typer.echo(context.parent.get_help())


@app.command("serve")
@with_settings
def _serve(config: Path | None, flags: dict[str, object]) -> None:
    """Run the broker until Ctrl-C or SIGTERM."""
    from leveret.cli.serve import serve

    raise typer.Exit(serve(config, os.environ, flags))


@config_app.command("check")
@with_settings
def _check(config: Path | None, flags: dict[str, object]) -> None:
    """Validate the settings without starting a broker."""
    from leveret.cli.settings import check

    typer.echo(check(config, os.environ, flags))


@config_app.command("show")
@with_settings
def _show(
    config: Path | None, flags: dict[str, object], json: bool = typer.Option(False, "--json", help="Print JSON.")
) -> None:
    """Show every setting with its value and source; secrets are hidden."""
    from leveret.cli.settings import show, show_json

    typer.echo((show_json if json else show)(config, os.environ, flags))


RABBITMQ_CONF = typer.Argument(metavar="FILE", help="RabbitMQ's configuration file, rabbitmq.conf.")
TOML_FILE = typer.Option(None, "--output", metavar="FILE", help="New file to write.  [default: standard output]")


@config_app.command("import")
def _import(file: Path = RABBITMQ_CONF, output: Path | None = TOML_FILE) -> None:
    """Translate rabbitmq.conf into a TOML file; keys without a counterpart become comments with the reason."""
    from leveret.cli.settings import import_rabbitmq_conf

    typer.echo(import_rabbitmq_conf(file, output), nl=False)


DATA_DIR = typer.Argument(metavar="DATA_DIR", help="Data directory, as in 'leveret serve --data-dir'.")
NEW_DATA_DIR = typer.Argument(metavar="DATA_DIR", help="Empty or new directory.")
BACKUP = typer.Argument(metavar="BACKUP", help="Directory written by 'leveret backup'.")
TARGET = typer.Argument(metavar="TARGET", help="Empty or new directory.")


@app.command("check")
def _check_data(
    data_dir: Path = DATA_DIR,
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Verify the data directory of a stopped broker.

    Nothing is changed. Exit code 0: sound; 1: damaged; 2: cannot be read.
    """
    from leveret.cli.data import check, run

    raise typer.Exit(run(lambda: check(data_dir, as_json)))


@app.command("dump")
def _dump(
    data_dir: Path = DATA_DIR,
    queue: str | None = typer.Option(None, metavar="NAME", help="Only this queue."),
    vhost: str | None = typer.Option(None, metavar="NAME", help="Only this virtual host."),
    limit: int | None = typer.Option(None, metavar="N", min=0, help="At most N messages per queue."),
    bodies: bool = typer.Option(False, "--bodies", help="Include message bodies."),
) -> None:
    """Print the definitions and messages of a stopped broker as JSON lines."""
    from leveret.cli.data import dump, run

    raise typer.Exit(run(lambda: dump(data_dir, queue, vhost, limit, bodies)))


@app.command("backup")
def _backup(
    data_dir: Path = DATA_DIR,
    target: Path = TARGET,
    timeout: float = typer.Option(600.0, metavar="SECONDS", help="How long to wait for a running broker."),
) -> None:
    """Back up a data directory, also while its broker runs."""
    from leveret.cli.data import backup, run

    raise typer.Exit(run(lambda: backup(data_dir, target, timeout)))


@app.command("restore")
def _restore(
    source: Path = BACKUP,
    data_dir: Path = NEW_DATA_DIR,
    force: bool = typer.Option(False, "--force", help="Restore a damaged backup too."),
) -> None:
    """Restore a backup into a new data directory."""
    from leveret.cli.data import restore, run

    raise typer.Exit(run(lambda: restore(source, data_dir, force)))


# These commands parse their options themselves, including --help: the list of pipelines imports nothing else.
PIPELINE_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@pipeline_app.command("list", context_settings=PIPELINE_ARGUMENTS, add_help_option=False)
def _list_pipelines(context: typer.Context) -> None:
    """List the pipelines; with --running, the Spark queries that a broker knows."""
    if context.args:
        from leveret.cli.pipeline_queries import app

        app(args=context.args, prog_name=context.command_path)  # ends the process
    from leveret.cli.pipeline import list_pipelines

    typer.echo(list_pipelines())


@pipeline_app.command("run", context_settings=PIPELINE_ARGUMENTS, add_help_option=False)
def _run_pipeline(context: typer.Context, name: str = typer.Argument("", metavar="NAME")) -> None:
    """Run a pipeline; for its options, run NAME --help."""
    from leveret.cli.pipeline import run_pipeline

    run_pipeline(name, context.args, context.command_path)


if __name__ == "__main__":
    main()
