"""The first start of a broker that opens to a network: no well-known password, and a made-up one that is seen once."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker_process import OFF, SRC, BrokerProcess
from tests.support.command_line import Cli
from tests.support.http_api import HttpApi
from tests.support.raw_client import RawClient

OPEN = ("--host", "0.0.0.0", "--login-failure-delay", "0")


def login_of(text: str) -> tuple[str, str]:
    found = re.search(r"^  user +(\S+)\n  password +(\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return found[1], found[2]


def url_of(serving: BrokerProcess, user: str, password: str) -> str:
    address = serving.url().partition("://")[2].rpartition("@")[2]
    return f"amqp://{user}:{password}@{address}"


def is_let_in(url: str) -> bool:
    with RawClient(url) as client:
        try:
            client.handshake()
        except AssertionError:
            return False
        return True


def everything_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.feature("S4-72")
def test_an_open_broker_makes_an_administrator_whose_password_is_seen_once(tmp_path: Path) -> None:
    """In no log, on disk as a hash, and never again; the well-known user is not there."""
    with BrokerProcess(tmp_path, *OPEN) as serving:
        user, password = login_of(serving.banner())
        assert user == "admin"
        assert len(password) >= 20
        assert serving.banner().count(password) == 1
        assert f"://{user}@127.0.0.1" in serving.url()
        assert "Change the password of 'admin'" in serving.banner()
        assert "guest" not in serving.banner()
        assert is_let_in(url_of(serving, user, password))
        assert not is_let_in(url_of(serving, user, "guest"))
        assert not is_let_in(url_of(serving, "guest", "guest"))
        serving.terminate()
        assert serving.exit_code() == 0
        log = serving.log()
    kept = everything_in(tmp_path / "data")
    assert password not in log
    assert password.encode() not in kept
    assert b"$argon2id$" in kept
    with BrokerProcess(tmp_path, *OPEN) as again:
        assert "shown only once" not in again.banner()
        assert "Change the password" not in again.banner()
        assert "guest" not in again.banner()
        assert is_let_in(url_of(again, user, password))
        assert not is_let_in(url_of(again, "guest", "guest"))


def test_each_broker_makes_up_its_own(tmp_path: Path) -> None:
    seen = set()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        with BrokerProcess(tmp_path / name, *OPEN) as serving:
            seen.add(login_of(serving.banner())[1])
    assert len(seen) == 2


def test_it_is_kept_as_a_hash_before_anybody_has_logged_in(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *OPEN) as serving:
        user, password = login_of(serving.banner())
        serving.process.kill()
        serving.exit_code()
    assert password.encode() not in everything_in(tmp_path / "data")
    with BrokerProcess(tmp_path, *OPEN) as again:
        assert is_let_in(url_of(again, user, password))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.1,::1"])
def test_on_this_machine_alone_guest_is_made_as_ever(host: str, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, "--host", host) as serving:
        assert "guest:guest@" in serving.url()
        assert "shown only once" not in serving.banner()
        assert is_let_in(serving.url())


def test_a_password_that_was_given_is_used_and_none_is_made_up(tmp_path: Path) -> None:
    given = {"LEVERET_DEFAULT_USER": "ops", "LEVERET_DEFAULT_PASSWORD": "correct horse"}
    with BrokerProcess(tmp_path, *OPEN, environ=given) as serving:
        assert "shown only once" not in serving.banner()
        assert is_let_in(url_of(serving, "ops", "correct%20horse"))


def test_a_user_that_was_named_gets_the_made_up_password(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *OPEN, "--default-user", "ops") as serving:
        user, password = login_of(serving.banner())
        assert user == "ops"
        assert is_let_in(url_of(serving, user, password))


def test_an_administrator_of_the_config_file_keeps_its_own_password(tmp_path: Path) -> None:
    (tmp_path / "leveret.toml").write_text(
        '[[bootstrap.users]]\nname = "admin"\npassword = "mine"\ntags = "administrator"\n'
    )
    with BrokerProcess(tmp_path, *OPEN, "--config", str(tmp_path / "leveret.toml")) as serving:
        assert "shown only once" not in serving.banner()
        assert is_let_in(url_of(serving, "admin", "mine"))
        assert not is_let_in(url_of(serving, "guest", "guest"))


def test_a_first_start_that_fails_later_leaves_a_password_that_was_seen(tmp_path: Path) -> None:
    with socket.create_server(("0.0.0.0", 0)) as taken:
        with BrokerProcess(tmp_path, *OPEN, port=str(taken.getsockname()[1])) as failing:
            assert failing.exit_code(20) == 2
            assert failing.process.stdout is not None
            user, password = login_of(failing.process.stdout.read().decode())
            assert password not in failing.log()
    with BrokerProcess(tmp_path, *OPEN) as serving:
        assert "shown only once" not in serving.banner()
        assert is_let_in(url_of(serving, user, password))


def test_a_journal_is_told_no_password_and_the_remedy_works(tmp_path: Path) -> None:
    """What systemd keeps of a service's output is a log. Nothing is made there, so the next start is the first."""
    command = [sys.executable, "-m", "leveret.cli.main", "serve", "--data-dir", str(tmp_path / "data"), *OPEN, *OFF]
    with (tmp_path / "journal").open("w+b") as journal:
        found = os.fstat(journal.fileno())
        environ = {**os.environ, "PYTHONPATH": str(SRC), "JOURNAL_STREAM": f"{found.st_dev}:{found.st_ino}"}
        done = subprocess.run(
            [*command, "--amqp-port", "0"], stdout=journal, stderr=subprocess.PIPE, env=environ, text=True, timeout=120
        )
    assert done.returncode == 2
    assert "LEVERET_DEFAULT_PASSWORD" in done.stderr
    assert (tmp_path / "journal").read_bytes() == b""
    given = {"LEVERET_DEFAULT_USER": "ops", "LEVERET_DEFAULT_PASSWORD": "mine"}
    with BrokerProcess(tmp_path, *OPEN, environ=given) as serving:
        assert is_let_in(url_of(serving, "ops", "mine"))


def test_the_administrator_may_use_the_http_api_and_change_the_password_as_the_banner_says(tmp_path: Path) -> None:
    with BrokerProcess(tmp_path, *OPEN, "--http-port", "0") as serving:
        user, password = login_of(serving.banner())
        command = re.search(r"leveret (users password admin) --username admin --url (http://\S+)", serving.banner())
        assert command is not None, serving.banner()
        assert HttpApi(command[2], user, password).get("/api/whoami")[1]["tags"] in (["administrator"], "administrator")
        cli = Cli(command[2], tmp_path, username=user, password=password)
        assert cli.done(*command[1].split(), given="mine\n") == "password of user 'admin' changed\n"
        assert is_let_in(url_of(serving, user, "mine"))
        assert not is_let_in(url_of(serving, user, password))
