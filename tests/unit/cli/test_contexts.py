"""Names for brokers, and where a password comes from."""

from __future__ import annotations

import os
import sys
from io import StringIO
from pathlib import Path

import pytest

from leveret.cli.api_client import Misuse
from leveret.cli.contexts import Context, Contexts, contexts_path, load_contexts, login_of, password_in

SHOP = Context("https://shop.example:15671", "anna", "orders")


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"XDG_CONFIG_HOME": str(tmp_path)}


def keep(environ: dict[str, str], current: str | None = None, **named: Context) -> Path:
    path = contexts_path(environ)
    Contexts(path, dict(named), current).save()
    return path


def secret_file(path: Path, text: str = "hunter2\n", mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CONFIG_HOME": "/x", "HOME": "/h"}, "/x/leveret/contexts.toml"),
        ({"APPDATA": "/a", "HOME": "/h"}, "/a/leveret/contexts.toml"),
        ({"HOME": "/h"}, "/h/.config/leveret/contexts.toml"),
        ({}, "leveret-contexts.toml"),
    ],
)
def test_contexts_are_kept_in_the_users_own_place(environ: dict[str, str], expected: str) -> None:
    assert contexts_path(environ) == Path(expected)


def test_contexts_come_back_as_they_were_saved(environ: dict[str, str]) -> None:
    odd = Context("http://[::1]:1", 'a"b\\c\x7f\n', "ö/☃", "/a b/c")
    path = keep(environ, "the shop", **{"the shop": SHOP, 'x.y"\n': odd})
    loaded = load_contexts(path)
    assert (loaded.current, loaded.named) == ("the shop", {"the shop": SHOP, 'x.y"\n': odd})
    assert [each.name for each in path.parent.iterdir()] == ["contexts.toml"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("contexts = 1", "'contexts' must be a table"),
        ("[contexts]\nshop = 1", "context 'shop'"),
        ("[contexts.shop]\ncolour = 'red'", "'colour' must be one of url, username, vhost, password_file"),
        ("[contexts.shop]\nurl = 7", "'url' must be one of"),
        ("[contexts.shop", "is not valid TOML"),
        ("[contexts.shop]\npassword = 'hunter2'", "contains a password"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_cause(environ: dict[str, str], text: str, expected: str) -> None:
    path = contexts_path(environ)
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(Misuse) as problem:
        load_contexts(path)
    assert str(path) in str(problem.value)
    assert expected in str(problem.value)
    assert "hunter2" not in str(problem.value)


def test_without_anything_it_is_guest_on_this_machine(environ: dict[str, str]) -> None:
    login = login_of(environ)
    assert login.address.url == "http://127.0.0.1:15672"
    assert (login.username, login.password(), login.vhost) == ("guest", "guest", None)


def test_the_current_context_is_used_until_another_is_named(environ: dict[str, str]) -> None:
    keep(environ, "shop", shop=SHOP, other=Context("http://other"))
    assert login_of(environ).address.url == "https://shop.example:15671"
    assert login_of(environ).vhost == "orders"
    assert login_of({**environ, "LEVERET_CONTEXT": "other"}).address.url == "http://other:15672"
    assert login_of({**environ, "LEVERET_CONTEXT": "none"}, context="other").address.url == "http://other:15672"


def test_an_unknown_context_is_refused_with_those_that_are_known(environ: dict[str, str]) -> None:
    keep(environ, shop=SHOP)
    with pytest.raises(Misuse, match=r"context 'shpo' not found .*\(known contexts: shop\): leveret context add shpo"):
        login_of(environ, context="shpo")


def test_another_url_does_not_get_the_password_of_the_context(environ: dict[str, str], tmp_path: Path) -> None:
    file = secret_file(tmp_path / "secret")
    keep(environ, "shop", shop=Context(SHOP.url, "guest", None, str(file)))
    assert login_of(environ).password() == "hunter2"
    assert login_of(environ, url="http://elsewhere").password() == "guest"
    assert login_of(environ, url="http://elsewhere", context="shop").password() == "guest"
    assert login_of(environ, url=SHOP.url, context="shop").password() == "hunter2"


def test_another_user_does_not_get_the_password_of_the_context(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(environ, "shop", shop=Context(SHOP.url, "anna", None, str(secret_file(tmp_path / "secret"))))
    assert login_of(environ, username="guest").password() == "guest"
    monkeypatch.setattr(sys, "stdin", StringIO())
    with pytest.raises(
        Misuse, match=r"no password for user 'bert' at https://shop.example:15671: set LEVERET_PASSWORD"
    ):
        login_of(environ, username="bert").password()


def test_the_flag_wins_over_the_environment_and_that_over_the_context(environ: dict[str, str], tmp_path: Path) -> None:
    by_context, by_flag = secret_file(tmp_path / "a", "of context"), secret_file(tmp_path / "b", "of flag")
    keep(environ, "shop", shop=Context(SHOP.url, "anna", None, str(by_context)))
    assert login_of(environ).password() == "of context"
    environ["LEVERET_PASSWORD"] = "of environment"
    assert login_of(environ).password() == "of environment"
    assert login_of(environ, password_file=str(by_flag)).password() == "of flag"


def test_a_password_is_asked_for_at_a_terminal_only(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    asked: list[str] = []
    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("getpass.getpass", lambda prompt, stream: asked.append(prompt) or "typed")
    login = login_of(environ, username="anna")
    assert asked == []
    assert login.password() == "typed"
    assert asked == ["Password for anna at http://127.0.0.1:15672: "]


@pytest.mark.skipif(os.name != "posix", reason="modes are of POSIX")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_password_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = secret_file(tmp_path / "secret", mode=mode)
    with pytest.raises(Misuse, match=f"has mode {mode:o}, other users can read it: chmod 600 {path}"):
        password_in(path)


@pytest.mark.parametrize(("text", "expected"), [("a b\r\nmore", "a b"), (" x ", " x "), ("ö", "ö")])
def test_a_password_is_the_first_line_of_its_file(tmp_path: Path, text: str, expected: str) -> None:
    path = tmp_path / "secret"
    path.write_bytes(text.encode())
    path.chmod(0o600)
    assert password_in(path) == expected


def test_a_password_file_that_is_not_there_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misuse, match=r"cannot read password file .*: No such file"):
        password_in(tmp_path / "none")
    with pytest.raises(Misuse, match="is empty"):
        password_in(secret_file(tmp_path / "secret", "\n"))
