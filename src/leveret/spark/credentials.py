"""A password that can travel and cannot be shown.

The driver reads it once, from the first line of `credentialsFile` or from LEVERET_PASSWORD, and it reaches the
executors inside the pickled reader or writer. So the file need exist on the driver only. It is never an option, because
Spark shows options in plans, logs and its web pages.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from leveret.spark.errors import OptionError

PASSWORD_VARIABLE = "LEVERET_PASSWORD"  # noqa: S105  # its name
FIRST_USER = "guest"


class Secret:
    """A password that is shown as asterisks."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def authorization(self, username: str) -> str:
        """The value of the header of basic authentication."""
        return "Basic " + base64.b64encode(f"{username}:{self._text}".encode()).decode("ascii")


def secret_for(username: str, file: str | None, environ: Mapping[str, str], *, loopback: bool) -> Secret:
    """The password of this user; the first user of a broker on this machine needs none."""
    if file is not None:
        return Secret(_first_line(file))
    if environ.get(PASSWORD_VARIABLE):
        return Secret(environ[PASSWORD_VARIABLE])
    if loopback and username == FIRST_USER:
        return Secret(FIRST_USER)
    raise OptionError(
        f"no password for user '{username}': put it into the first line of a file and give "
        f'.option("credentialsFile", "path"), or set {PASSWORD_VARIABLE} before the Spark session starts'
    )


def _first_line(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8") as lines:
            first = lines.readline().rstrip("\r\n")
    except OSError as error:
        raise OptionError(
            f"option credentialsFile: '{file}' cannot be read on the driver: {error.strerror}; "
            "give the path of a readable file with the password in its first line"
        ) from error
    except UnicodeDecodeError as error:
        raise OptionError(f"option credentialsFile: '{file}' is not UTF-8; save it as UTF-8") from error
    if not first:
        raise OptionError(f"option credentialsFile: the first line of '{file}' is empty; put the password there")
    return first
