"""The ``leveret`` command in this process, against one broker over HTTP."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from leveret.cli.main import app


class Cli:
    """``leveret`` in this process, with a configuration directory of its own, at one broker."""

    def __init__(self, url: str, folder: Path, username: str = "guest", password: str | None = None) -> None:
        self.url = url
        self.folder = folder
        self._username = username
        environ = {"XDG_CONFIG_HOME": str(folder), "COLUMNS": "300", "LEVERET_PASSWORD": password}
        self._runner = CliRunner(env=environ)

    def run(self, *arguments: str, given: str | bytes = b"", url: str | None = "") -> Result:
        """``url`` None: the command finds its broker by itself."""
        where = [] if url is None else ["--url", url or self.url]
        who = [] if self._username == "guest" else ["--username", self._username]
        result = self._runner.invoke(app, [*arguments, *where, *who], input=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def done(self, *arguments: str, given: str | bytes = b"") -> str:
        """The output of a command that must succeed."""
        result = self.run(*arguments, given=given)
        assert result.exit_code == 0, result.output
        return result.stdout

    def refused(self, *arguments: str, code: int = 1, given: str | bytes = b"") -> str:
        """The last line of a command that must not succeed."""
        result = self.run(*arguments, given=given)
        assert result.exit_code == code, result.output
        line = result.stderr.splitlines()[-1]
        assert line.startswith("leveret: "), result.stderr
        return line

    def json(self, *arguments: str) -> Any:
        return json.loads(self.done(*arguments, "--json"))

    def rows(self, *arguments: str) -> list[list[str]]:
        """The cells of a table, without its heads."""
        return [re.split(r"\s{2,}", line) for line in self.done(*arguments).splitlines()[1:]]
