"""A shell that completes: commands, options, and the names that the broker knows. S4-77."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leveret import Broker
from tests.support.broker_process import SRC
from tests.support.command_line import Cli
from tests.support.http_api import QUIET

BASH = shutil.which("bash")
STRANGE = ("$(touch harm)", "`touch harm`", "a b", "x;touch harm", "größe")
PROGRAM = f"""#!{sys.executable}
from leveret.cli import name_completion
from leveret.cli.main import main

name_completion.SECONDS = 60.0  # a request may take longer than a user waits
main()
"""
# As bash does it when Tab is pressed: the function that the script names fills COMPREPLY.
PRESS_TAB = """
source completion
COMP_WORDS=("$@")
COMP_CWORD=$(( $# - 1 ))
"$(complete -p leveret | sed 's/.*-F \\([^ ]*\\).*/\\1/')" leveret "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with Broker(QUIET) as broker:
        cli = Cli(broker.http_url, tmp_path)
        for name in ("orders", "orders.dead", "parcels", *STRANGE):
            cli.done("queues", "create", name)
        cli.run("context", "add", "here", "--url", broker.http_url, url=None)
        program = tmp_path / "bin" / "leveret"
        program.parent.mkdir()
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (tmp_path / "completion").write_text(cli.run("completion", "bash", url=None).stdout)
        yield cli


def environ(cli: Cli, **more: str) -> dict[str, str]:
    path = f"{cli.folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LEVERET_")}
    return {**kept, "PATH": path, "PYTHONPATH": str(SRC), "XDG_CONFIG_HOME": str(cli.folder), **more}


def completed(cli: Cli, *words: str, **more: str) -> list[str]:
    assert BASH is not None
    done = subprocess.run(
        [BASH, "--norc", "-c", PRESS_TAB, "bash", *words],
        capture_output=True,
        text=True,
        timeout=50,
        cwd=cli.folder,
        env=environ(cli, **more),
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


if BASH is not None:

    @pytest.mark.feature("S4-77")
    def test_bash_completes_names_of_queues_exchanges_users_and_contexts(cli: Cli) -> None:
        assert completed(cli, "leveret", "queues", "show", "ord") == ["orders", "orders.dead"]
        assert completed(cli, "leveret", "publish", "par") == ["parcels"]
        assert completed(cli, "leveret", "exchanges", "show", "amq.t") == ["amq.topic"]
        assert completed(cli, "leveret", "users", "show", "") == ["guest"]
        assert completed(cli, "leveret", "queues", "list", "--context", "") == ["here"]
        assert completed(cli, "leveret", "queues", "list", "--vhost", "") == ["/"]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("queues list --sort mess", ["messages"]),
            ("top --sort p", ["publish"]),
            ("queues create q --type q", ["quorum"]),
            ("exchanges create e --type to", ["topic"]),
            ("policies set p ^q {} --apply-to q", ["queues", "quorum_queues"]),
            ("users tags guest --tag mo", ["monitoring"]),
            ("permissions may guest w", ["write"]),
        ],
    )
    def test_bash_completes_fixed_choices(cli: Cli, line: str, expected: list[str]) -> None:
        assert completed(cli, "leveret", *line.split()) == expected

    def test_a_name_that_a_shell_could_obey_is_not_offered(cli: Cli) -> None:
        assert completed(cli, "leveret", "get", "") == ["orders", "orders.dead", "parcels"]
        assert not (cli.folder / "harm").exists()

    def test_without_a_broker_or_a_password_there_is_nothing_and_nobody_is_asked(cli: Cli) -> None:
        away = ("--url", "http://127.0.0.1:1")
        assert completed(cli, "leveret", "queues", "show", *away, "") == []
        assert completed(cli, "leveret", "queues", "show", "--username", "anna", "") == []
        assert completed(cli, "leveret", "queues", "show", "--context", "none", "") == []


@pytest.mark.parametrize(
    ("shell", "expected"),
    [("zsh", '_arguments \'*: :(("orders"\n"orders.dead"))\'\n'), ("fish", "orders\norders.dead\n")],
)
@pytest.mark.feature("S4-77")
def test_other_shells_are_answered_in_their_words(shell: str, expected: str, cli: Cli) -> None:
    asked = {"_TYPER_COMPLETE_ARGS": "leveret browse ord", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    done = subprocess.run(
        [cli.folder / "bin" / "leveret"],
        capture_output=True,
        text=True,
        timeout=50,
        env=environ(cli, _LEVERET_COMPLETE=f"complete_{shell}", **asked),
        check=False,
    )
    assert (done.stdout, done.stderr) == (expected, "")
