"""Named brokers: a TOML file in the user's configuration directory says where each is and who asks there.

    current = "shop"

    [contexts.shop]
    url = "https://broker.example:15671"
    username = "anna"
    vhost = "orders"
    password_file = "/home/anna/.shop-password"
    ca_file = "/home/anna/shop-ca.pem"

There is never a password in it. A password comes from LEVERET_PASSWORD, from a file that nobody else may read, or from
the terminal; ``guest`` has the one that everybody knows.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from leveret.cli.api_client import Login, Misuse, address_of

URL = "http://127.0.0.1:15672"
USERNAME = "guest"
PUBLIC = {"guest": "guest"}  # no secret: the broker takes it from this machine only


@dataclass(slots=True, frozen=True)
class Context:
    url: str = URL
    username: str = USERNAME
    vhost: str | None = None
    password_file: str | None = None
    ca_file: str | None = None


@dataclass(slots=True)
class Contexts:
    """What the file holds."""

    path: Path
    named: dict[str, Context]
    current: str | None = None

    def named_as(self, name: str) -> Context:
        context = self.named.get(name)
        if context is None:
            known = ", ".join(sorted(self.named)) or "none"
            raise Misuse(f"context '{name}' not found in {self.path} (there: {known}): leveret context add {name}")
        return context

    def save(self) -> None:
        """Whole or not at all: the new file takes the place of the old one."""
        lines = [f"current = {_toml(self.current)}\n"] if self.current is not None else []
        for name, context in sorted(self.named.items()):
            given = {key: value for key, value in asdict(context).items() if value is not None}
            lines.append(f"\n[contexts.{_toml(name)}]\n")
            lines += [f"{key} = {_toml(value)}\n" for key, value in given.items()]
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text("".join(lines).lstrip("\n"), encoding="utf-8")
            beside.replace(self.path)
        except OSError as problem:
            raise Misuse(f"{self.path} cannot be written: {problem.strerror}") from None


def contexts_path(environ: Mapping[str, str]) -> Path:
    """In the user's own place for configuration: XDG's, Windows's, or a folder here when there is no home."""
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "leveret" / "contexts.toml"
    if environ.get("APPDATA"):
        return Path(environ["APPDATA"]) / "leveret" / "contexts.toml"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".config" / "leveret" / "contexts.toml"
    return Path("leveret-contexts.toml")


def load_contexts(path: Path) -> Contexts:
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts(path, {})
    except OSError as problem:
        raise Misuse(f"{path} cannot be read: {problem.strerror}") from None
    except ValueError as problem:
        raise Misuse(f"{path} is not TOML: {problem}; correct it or remove it") from None
    named, current = told.get("contexts", {}), told.get("current")
    if not isinstance(named, dict) or not isinstance(current, str | None):
        raise Misuse(f"{path} cannot be used: 'contexts' must be a table and 'current' a name in it")
    return Contexts(path, {name: _context(path, name, given) for name, given in named.items()}, current)


def _context(path: Path, name: str, given: object) -> Context:
    if not isinstance(given, dict):
        raise Misuse(f"context '{name}' in {path} cannot be used: it must be a table")
    for key, value in given.items():
        if key == "password":
            raise Misuse(
                f"context '{name}' in {path} holds a password, which does not belong there: put it into a file of its "
                "own with mode 600 and name that as password_file"
            )
        if key not in Context.__slots__ or not isinstance(value, str):
            keys = ", ".join(Context.__slots__)
            raise Misuse(f"context '{name}' in {path} cannot be used: {key!r} is not one of {keys}, with a text")
    return Context(**given)


def login_of(
    environ: Mapping[str, str],
    url: str | None = None,
    username: str | None = None,
    context: str | None = None,
    password_file: str | None = None,
    ca_file: str | None = None,
) -> Login:
    """From the flags, then the context. With ``--url`` alone no context counts: its password is for another place."""
    source = "--url"
    chosen = Context()
    if context is not None or url is None:
        contexts = load_contexts(contexts_path(environ))
        name = context or environ.get("LEVERET_CONTEXT") or contexts.current
        if name is not None:
            chosen = contexts.named_as(name)
            source = f"context '{name}'" if url is None else source
    user = username or chosen.username
    address = address_of(url or chosen.url, source)
    is_its_place = url in (None, chosen.url)
    files = (password_file, chosen.password_file if user == chosen.username and is_its_place else None)
    authorities = ca_file or (chosen.ca_file if is_its_place else None)
    return Login(address, user, lambda: _password(environ, address.url, user, files), chosen.vhost, authorities)


def _password(environ: Mapping[str, str], url: str, username: str, files: tuple[str | None, str | None]) -> str:
    """``files``: that of the flag, which wins over the environment, and that of the context, which does not."""
    by_flag, by_context = files
    if by_flag is not None:
        return password_in(Path(by_flag).expanduser())
    if environ.get("LEVERET_PASSWORD"):
        return environ["LEVERET_PASSWORD"]
    if by_context is not None:
        return password_in(Path(by_context).expanduser())
    if username in PUBLIC:
        return PUBLIC[username]
    if not sys.stdin.isatty():
        raise Misuse(
            f"no password for user '{username}' at {url}: set LEVERET_PASSWORD, name a file by --password-file, or "
            "use a terminal"
        )
    import getpass

    return getpass.getpass(f"Password of {username} at {url}: ", stream=sys.stderr)


def password_in(path: Path) -> str:
    """The first line of a file that only its owner may read."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise Misuse(f"password file {path} has mode {mode:o}, others may read it: chmod 600 {path}")
            password = file.readline().rstrip("\r\n")
    except (OSError, ValueError) as problem:
        cause = getattr(problem, "strerror", None) or problem
        raise Misuse(f"password file {path} cannot be read: {cause}") from None
    if not password:
        raise Misuse(f"password file {path} is empty: write the password into its first line")
    return password


def _toml(text: str | None) -> str:
    """A text as TOML quotes it: JSON's way, with all letters as they are but DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
