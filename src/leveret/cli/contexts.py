"""Named brokers: a TOML file in the user's configuration directory with the address and user name of each.

    current = "shop"

    [contexts.shop]
    url = "https://broker.example:15671"
    username = "anna"
    vhost = "orders"
    password_file = "/home/anna/.shop-password"
    ca_file = "/home/anna/shop-ca.pem"

It never contains a password. The password comes from LEVERET_PASSWORD, from a file that only its owner may read, or
from the terminal; that of ``guest`` defaults to ``guest``.
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
PUBLIC = {"guest": "guest"}  # not a secret: the broker accepts it only from localhost


@dataclass(slots=True, frozen=True)
class Context:
    url: str = URL
    username: str = USERNAME
    vhost: str | None = None
    password_file: str | None = None
    ca_file: str | None = None


@dataclass(slots=True)
class Contexts:
    """The content of the file."""

    path: Path
    named: dict[str, Context]
    current: str | None = None

    def find(self, name: str) -> Context:
        context = self.named.get(name)
        if context is None:
            known = ", ".join(sorted(self.named)) or "none"
            raise Misuse(
                f"context '{name}' not found in {self.path} (known contexts: {known}): leveret context add {name}"
            )
        return context

    def save(self) -> None:
        """Replace the file atomically."""
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
            raise Misuse(f"cannot write {self.path}: {problem.strerror}") from None


def contexts_path(environ: Mapping[str, str]) -> Path:
    """In $XDG_CONFIG_HOME, %APPDATA% or ~/.config; in the working directory if there is no home directory."""
    if environ.get("XDG_CONFIG_HOME"):
        return Path(environ["XDG_CONFIG_HOME"]) / "leveret" / "contexts.toml"
    if environ.get("APPDATA"):
        return Path(environ["APPDATA"]) / "leveret" / "contexts.toml"
    if environ.get("HOME"):
        return Path(environ["HOME"]) / ".config" / "leveret" / "contexts.toml"
    return Path("leveret-contexts.toml")


def load_contexts(path: Path) -> Contexts:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts(path, {})
    except OSError as problem:
        raise Misuse(f"cannot read {path}: {problem.strerror}") from None
    except ValueError as problem:
        raise Misuse(f"{path} is not valid TOML: {problem}; correct or remove the file") from None
    named, current = content.get("contexts", {}), content.get("current")
    if not isinstance(named, dict) or not isinstance(current, str | None):
        raise Misuse(f"{path} is invalid: 'contexts' must be a table and 'current' the name of a context")
    return Contexts(path, {name: _context(path, name, given) for name, given in named.items()}, current)


def _context(path: Path, name: str, given: object) -> Context:
    if not isinstance(given, dict):
        raise Misuse(f"context '{name}' in {path} is invalid: it must be a table")
    for key, value in given.items():
        if key == "password":
            raise Misuse(
                f"context '{name}' in {path} contains a password: store it in a separate file with mode 600 and set "
                "password_file to its path"
            )
        if key not in Context.__slots__ or not isinstance(value, str):
            keys = ", ".join(Context.__slots__)
            raise Misuse(f"context '{name}' in {path} is invalid: {key!r} must be one of {keys}, with a string value")
    return Context(**given)


def login_of(
    environ: Mapping[str, str],
    url: str | None = None,
    username: str | None = None,
    context: str | None = None,
    password_file: str | None = None,
    ca_file: str | None = None,
) -> Login:
    """From the flags, then the context. With ``--url`` alone no context applies: its password is for another broker."""
    source = "--url"
    chosen = Context()
    if context is not None or url is None:
        contexts = load_contexts(contexts_path(environ))
        name = context or environ.get("LEVERET_CONTEXT") or contexts.current
        if name is not None:
            chosen = contexts.find(name)
            source = f"context '{name}'" if url is None else source
    user = username or chosen.username
    address = address_of(url or chosen.url, source)
    is_its_url = url in (None, chosen.url)
    files = (password_file, chosen.password_file if user == chosen.username and is_its_url else None)
    ca_file = ca_file or (chosen.ca_file if is_its_url else None)
    return Login(address, user, lambda: _password(environ, address.url, user, files), chosen.vhost, ca_file)


def _password(environ: Mapping[str, str], url: str, username: str, files: tuple[str | None, str | None]) -> str:
    """``files``: the file given by flag, which overrides the environment, and that of the context, which does not."""
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
            f"no password for user '{username}' at {url}: set LEVERET_PASSWORD, use --password-file, or run the "
            "command in a terminal"
        )
    import getpass

    return getpass.getpass(f"Password for {username} at {url}: ", stream=sys.stderr)


def password_in(path: Path) -> str:
    """The first line of a file that only its owner may read."""
    try:
        with path.open(encoding="utf-8") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            if os.name == "posix" and mode & 0o077:
                raise Misuse(f"password file {path} has mode {mode:o}, other users can read it: chmod 600 {path}")
            password = file.readline().rstrip("\r\n")
    except (OSError, ValueError) as problem:
        cause = getattr(problem, "strerror", None) or problem
        raise Misuse(f"cannot read password file {path}: {cause}") from None
    if not password:
        raise Misuse(f"password file {path} is empty: write the password on its first line")
    return password


def _toml(text: str | None) -> str:
    """A TOML string: JSON's escapes, with other characters as they are except DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")
