"""``leveret completion``: the script by which a shell completes commands and options."""

from __future__ import annotations

import typer
from typer.completion import get_completion_script  # type: ignore[attr-defined]

from leveret.cli.api_client import Misuse
from leveret.cli.broker_options import alone, told

app = alone()

PROGRAM = "leveret"
VARIABLE = "_LEVERET_COMPLETE"
SHELLS = ("bash", "zsh", "fish", "powershell", "pwsh")


@app.command()
def completion(
    shell: str = typer.Argument(
        metavar="SHELL", help=f"one of {', '.join(SHELLS)}", autocompletion=lambda: list(SHELLS)
    ),
) -> None:
    """Print the script for a shell. For bash: leveret completion bash >> ~/.bash_completion"""

    def run() -> None:
        if shell not in SHELLS:
            raise Misuse(f"there is no completion for {shell!r}: {', '.join(SHELLS)}")
        typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell))

    told(run)
