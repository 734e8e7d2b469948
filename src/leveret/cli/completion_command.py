"""``leveret completion``: the completion script of a shell."""

from __future__ import annotations

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from leveret.cli.api_client import Misuse
from leveret.cli.broker_options import reported, single_command

app = single_command()

PROGRAM = "leveret"
VARIABLE = "_LEVERET_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


@app.command()
@reported
def completion(
    shell: str = typer.Argument(
        metavar="SHELL", help=f"One of {', '.join(SHELLS)}.", autocompletion=lambda: list(SHELLS)
    ),
) -> None:
    """Print the completion script for a shell. For bash: leveret completion bash >> ~/.bash_completion"""
    if shell not in SHELLS:
        raise Misuse(f"unknown shell {shell!r}: choose one of {', '.join(SHELLS)}")
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))
