"""CWE-770, allocation of resources without limits: a password hash names its own cost, so a cost far above ours is
refused when the hash is given, and not paid at a login if it is stored already.
CWE-916, password hash with insufficient computational effort: RabbitMQ's hashes are replaced at the next login."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

import leveret
from leveret.bootstrap import Bootstrap, BootstrapUser
from leveret.errors import ConfigError
from tests.support.http_api import QUIET, HttpApi
from tests.support.rabbitmq_export import rabbitmq_hash


def argon2(cost: str, salt: str = "c2FsdHNhbHRzYWx0", digest: str = "A" * 43) -> str:
    return f"$argon2id$v=19${cost}${salt}${digest}"


ABSURD = [
    pytest.param(argon2("m=4194304,t=1,p=1"), "m=4194304", id="memory"),
    pytest.param(argon2("m=19456,t=1000000,p=1"), "t=1000000", id="passes"),
    pytest.param(argon2("m=131072,t=16,p=1"), "m=131072,t=16", id="memory and passes"),
    pytest.param(argon2("m=65536,t=1,p=4096"), "p=4096", id="lanes"),
    pytest.param(argon2("m=19456,t=2,p=1", digest="A" * 4096), "digest", id="digest"),
    pytest.param(argon2("m=19456,t=2,p=1", salt="A" * 4096), "salt", id="salt"),
    pytest.param(argon2(f"m={'9' * 5000},t=2,p=1"), "argon2 string", id="digits"),
    pytest.param("$argon2id$", "argon2 string", id="no parameters"),
]


@pytest.mark.parametrize(("given", "named"), ABSURD)
def test_a_hash_of_absurd_cost_is_refused_wherever_it_is_given(given: str, named: str) -> None:
    with leveret.Broker(QUIET) as broker:
        api, eve = HttpApi(broker.http_url), {"password_hash": given, "tags": ""}
        everywhere = [("PUT", "/api/users/eve", eve), ("POST", "/api/definitions", {"users": [{"name": "eve", **eve}]})]
        for method, path, body in everywhere:
            response, answer = api.send(method, path, json.dumps(body).encode())
            assert response.status == 400
            assert named in str(answer)
            assert "eve" in str(answer)
        assert "eve" not in broker.node.broker.users
    bootstrap = Bootstrap(users=(BootstrapUser("eve", password_hash=given),))
    with pytest.raises(ConfigError, match=named):
        leveret.Broker(replace(QUIET, bootstrap=bootstrap)).start()


def test_the_defaults_of_other_programs_are_accepted() -> None:
    costs = ["m=65536,t=3,p=4", "m=102400,t=2,p=8", "m=47104,t=1,p=1", "m=7168,t=5,p=1"]
    with leveret.Broker(QUIET) as broker:
        for number, cost in enumerate(costs):
            name, given = f"user-{number}", argon2(cost)
            broker.call(lambda name=name, given=given: broker.node.broker.users.add(name, password_hash=given))  # type: ignore[misc]


def test_a_stored_hash_of_absurd_cost_neither_stops_the_start_nor_is_paid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    with leveret.Broker(settings) as broker:
        broker.call(lambda: broker.node.broker.users.add("eve", password="eve", tags=["administrator"]))
    with sqlite3.connect(tmp_path / "data" / "meta.db") as database:
        database.execute("UPDATE users SET password_hash = ? WHERE name = 'eve'", [argon2("m=65536,t=99999,p=1")])
    database.close()
    with leveret.Broker(settings) as broker:
        assert "eve" in broker.node.broker.users
        assert HttpApi(broker.http_url, "eve", "eve").get("/api/whoami")[0] == 401
    assert "user=eve" in caplog.text
    assert "leveret users password" in caplog.text


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_a_hash_of_rabbitmq_is_replaced_at_the_next_right_login(tmp_path: Path, algorithm: str) -> None:
    settings = replace(QUIET, data_dir=tmp_path / "data")
    weak = {
        "password_hash": rabbitmq_hash("secret", algorithm),
        "hashing_algorithm": f"rabbit_password_hashing_{algorithm}",
        "tags": "management",
    }
    with leveret.Broker(settings) as broker:
        admin = HttpApi(broker.http_url)
        admin.send("PUT", "/api/users/anna", json.dumps(weak).encode())
        assert HttpApi(broker.http_url, "anna", "wrong").get("/api/whoami")[0] == 401
        assert admin.get("/api/users/anna")[1]["password_hash"] == weak["password_hash"]
        assert HttpApi(broker.http_url, "anna", "secret").get("/api/whoami")[0] == 200
    with leveret.Broker(settings) as broker:
        kept = HttpApi(broker.http_url).get("/api/users/anna")[1]
        assert kept["password_hash"].startswith("$argon2id$")
        assert kept["tags"] == ["management"]
        assert HttpApi(broker.http_url, "anna", "secret").get("/api/whoami")[0] == 200
        assert HttpApi(broker.http_url, "anna", "wrong").get("/api/whoami")[0] == 401


def test_keeping_a_new_hash_does_not_bring_back_a_user_who_was_changed_meanwhile(tmp_path: Path) -> None:
    """CWE-367: between the worker that verifies a password and the loop that keeps its hash, the user may change."""
    settings = replace(QUIET, data_dir=tmp_path / "data")

    with leveret.Broker(settings) as broker:
        users = broker.node.broker.users

        def log_in_while_changing() -> None:
            for name in ("demoted", "deleted"):
                users.add(name, password="secret", tags=["administrator"])
                user = users.authenticate(name, "secret", now=0.0)
                assert user is not None
                if name == "demoted":
                    users.set_tags(name, [])
                else:
                    users.delete(name)
                users.note_login(user)

        broker.call(log_in_while_changing)
    with leveret.Broker(settings) as broker:
        users = broker.node.broker.users
        demoted = users.get("demoted")
        assert demoted is not None
        assert demoted.tags == ()
        assert demoted.password_hash is not None
        assert "deleted" not in users
