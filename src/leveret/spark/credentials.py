"""The password of a connection, which is sent to executors but never shown.

The driver reads it from the first line of `credentialsFile` or from LEVERET_PASSWORD. Executors receive it in the
pickled reader or writer, so only the driver needs the file. It is not an option, because Spark shows options in plans,
logs and its web UI.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path

from leveret.spark.errors import OptionError

PASSWORD_VARIABLE = "LEVERET_PASSWORD"  # noqa: S105  # its name
FIRST_USER = "guest"


class Secret:
    """A password that is printed as asterisks."""

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
        """The value of the Authorization header."""
        return "Basic " + base64.b64encode(f"{username}:{self._text}".encode()).decode("ascii")


def secret_for(username: str, file: str | None, environ: Mapping[str, str], *, loopback: bool) -> Secret:
    """The password of this user; that of the default user on localhost need not be given."""
    if file is not None:
        return Secret(first_line(file, "option credentialsFile"))
    if environ.get(PASSWORD_VARIABLE):
        return Secret(environ[PASSWORD_VARIABLE])
    if loopback and username == FIRST_USER:
        return Secret(FIRST_USER)
    raise OptionError(
        f"no password for user '{username}': put it into the first line of a file and give "
        f'.option("credentialsFile", "path"), or set {PASSWORD_VARIABLE} before the Spark session starts'
    )


def first_line(file: str, option: str) -> str:
    """The password in a file; ``option`` is named in errors."""
    try:
        with Path(file).open(encoding="utf-8") as lines:
            first = lines.readline().rstrip("\r\n")
    except OSError as error:
        raise OptionError(
            f"{option}: '{file}' cannot be read on the driver: {error.strerror}; "
            "give the path of a readable file with the password in its first line"
        ) from error
    except UnicodeDecodeError as error:
        raise OptionError(f"{option}: '{file}' is not UTF-8; save it as UTF-8") from error
    if not first:
        raise OptionError(f"{option}: the first line of '{file}' is empty; put the password there")
    return first
