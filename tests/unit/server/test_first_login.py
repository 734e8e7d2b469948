"""When an administrator is made up, and who it is."""

from __future__ import annotations

import pytest

from leveret.auth.passwords import verify_password
from leveret.bootstrap import Bootstrap, BootstrapUser
from leveret.config import Settings
from leveret.server.initial_definitions import generate_login, opens_to_a_network


@pytest.mark.parametrize("hosts", [("127.0.0.1",), ("::1",), ("localhost",), ("LocalHost", "127.9.9.9"), ("::1%lo",)])
def test_the_loopback_is_no_network(hosts: tuple[str, ...]) -> None:
    assert not opens_to_a_network(hosts)


@pytest.mark.parametrize("hosts", [("0.0.0.0",), ("::",), ("",), ("10.0.0.1",), ("myhost",), ("127.0.0.1", "10.0.0.1")])
def test_one_address_beyond_the_loopback_is_a_network(hosts: tuple[str, ...]) -> None:
    assert opens_to_a_network(hosts)


def test_a_user_who_may_only_come_from_this_machine_is_not_made_the_administrator() -> None:
    assert generate_login(Settings())[0].user == "admin"
    assert generate_login(Settings(loopback_users=frozenset()))[0].user == "guest"
    assert generate_login(Settings(default_user="ops"))[0].user == "ops"


def test_the_hash_is_of_the_password_and_neither_is_shown_by_accident() -> None:
    login, password = generate_login(Settings())
    assert password is not None
    assert len(password) == 24
    assert login.password_hash is not None
    assert verify_password(login.password_hash, password)
    assert login.password_hash not in repr(login)
    assert generate_login(Settings())[1] != password


def test_a_user_that_the_configuration_brings_needs_no_password_of_ours() -> None:
    brought = Bootstrap(users=(BootstrapUser("admin", "mine"),))
    login, password = generate_login(Settings(bootstrap=brought))
    assert (login.user, login.password_hash, password) == ("admin", None, None)
