"""Commands that come when they are called: the start stays short, and none of them is a promise only."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leveret.cli.lazy_commands import COMMANDS, LazyCommand
from leveret.cli.main import app
from leveret.cli.rabbitmq_commands import COUNTERPARTS

SRC = str(Path(__file__).parents[3] / "src")
SECONDS = 0.3
runner = CliRunner(env={"COLUMNS": "200"})


def leveret(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.argv[0] = 'leveret'; from leveret.cli.main import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=50, env={**os.environ, "PYTHONPATH": SRC, **environ}
    )


WITHOUT_BROKER = {("cluster", name) for name in ("demo", "join", "remove", "refound", "leave")}


def test_help_lists_every_command_with_what_it_is_for() -> None:
    shown = runner.invoke(app, ["--help"]).output
    for name, (_, text) in COMMANDS.items():
        assert f"  {name} " in shown
        assert text in shown
    assert "  serve " in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_is_there_when_it_is_called(name: str) -> None:
    result = runner.invoke(app, [name, "--help"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"Usage: leveret {name} ")
    assert "--install-completion" not in result.output


@pytest.mark.parametrize("name", [name for name in COMMANDS if name not in ("context", "completion")])
def test_every_command_says_where_the_broker_is_and_who_asks(name: str) -> None:
    real = LazyCommand(name, *COMMANDS[name]).load()
    for called, command in getattr(real, "commands", {name: real}).items():
        if (name, called) in WITHOUT_BROKER:
            continue
        options = {option for parameter in command.params for option in parameter.opts}
        assert {"--url", "--username", "--context", "--password-file"} <= options


def test_a_mistyped_command_is_refused_with_the_one_that_was_meant() -> None:
    result = runner.invoke(app, ["qeues"])
    assert result.exit_code == 2
    assert "Did you mean 'queues'?" in result.output


@pytest.mark.quiet
def test_help_takes_less_than_300_ms_best_of_five() -> None:
    """By the time of the processor, which does not depend on who else is busy."""
    taken = []
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert leveret("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(taken) < SECONDS, taken


@pytest.mark.parametrize("arguments", [["--help"], ["queues", "list", "--json", "--url", "http://127.0.0.1:1"]])
def test_rich_is_not_imported_before_a_table_is_drawn(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom leveret.cli.main import main\ntry: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('rich', 'asyncio', 'uvloop', 'starlette', 'regex') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=50, env={"PYTHONPATH": SRC}
    )
    assert done.stdout.endswith("[]\n"), (done.stdout, done.stderr)


def test_a_shell_completes_commands_and_what_is_below_them() -> None:
    asked = {"_LEVERET_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    done = leveret(COMP_WORDS="leveret queues p", **asked)
    assert done.stdout.split() == ["purge", "pause"], done.stderr
    asked["COMP_CWORD"] = "1"
    assert "queues" in leveret(COMP_WORDS="leveret q", **asked).stdout.split()


def test_the_script_for_a_shell_is_printed() -> None:
    shown = runner.invoke(app, ["completion", "bash"])
    assert "_LEVERET_COMPLETE=complete_bash" in shown.output
    assert shown.exit_code == 0
    refused = runner.invoke(app, ["completion", "tcsh"])
    assert refused.exit_code == 2
    assert "unknown shell 'tcsh': choose one of bash" in refused.output


@pytest.mark.parametrize(("name", "counterpart"), COUNTERPARTS.items())
def test_a_command_of_rabbitmqctl_is_answered_with_its_counterpart_which_exists(name: str, counterpart: str) -> None:
    result = runner.invoke(app, [name])
    assert result.exit_code == 2
    assert f"No such command '{name}'. Use 'leveret {counterpart}'." in result.output
    words = [word for word in counterpart.split() if word.islower() and not word.startswith("--")]
    assert runner.invoke(app, [*words, "--help"]).output.startswith(f"Usage: leveret {' '.join(words)} ")


@pytest.mark.parametrize("arguments", [["-h"], ["help"]])
def test_help_has_a_short_option_and_a_command(arguments: list[str]) -> None:
    assert runner.invoke(app, arguments).output.startswith("Usage: ")
    assert runner.invoke(app, ["queues", "list", "-h"]).output.startswith("Usage: leveret queues list ")


def test_the_version_is_a_command_too() -> None:
    assert runner.invoke(app, ["version"]).output == runner.invoke(app, ["--version"]).output
