"""Users over HTTP: made with a password or a hash, shown to administrators only, deleted with all that was theirs."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from pathlib import Path

import pika
import pika.exceptions
import pytest

from leveret import Broker
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user

SHA256, SHA512 = "rabbit_password_hashing_sha256", "rabbit_password_hashing_sha512"


pytestmark = pytest.mark.broker(fresh=True)


def names(answer: tuple[int, list[dict[str, str]]]) -> list[str]:
    assert answer[0] == 200, answer
    return [row["name"] for row in answer[1]]


def salted(password: str, algorithm: str = "sha256") -> str:
    """As RabbitMQ hashes a password."""
    salt = b"\x01\x02\xfe\xff"
    return base64.b64encode(salt + hashlib.new(algorithm, salt + password.encode()).digest()).decode()


def may_log_in(broker: Broker, name: str, password: str) -> bool:
    return ManagementApi(broker.http_url, name, password).get("whoami")[0] == 200


@pytest.mark.feature("S4-72")
def test_a_user_is_made_with_a_password_and_can_log_in(broker: Broker, admin: ManagementApi) -> None:
    assert admin.put("users/anna", {"password": "früh", "tags": "management, other"}) == (201, None)
    assert may_log_in(broker, "anna", "früh")
    assert not may_log_in(broker, "anna", "spät")
    status, shown = admin.get("users/anna")
    assert status == 200
    assert shown["tags"] == ["management", "other"]
    assert shown["limits"] == {}
    assert shown["password_hash"].startswith("$argon2id$")
    assert "früh" not in str(shown)


def test_tags_keep_their_order(broker: Broker, admin: ManagementApi) -> None:
    """Also in whoami, in the export, and each once."""
    admin.put("users/anna", {"password": "tea", "tags": "zeta,management,other,zeta"})
    admin.put("vhosts/tagged", {"tags": "production, critical,production"})
    tags = ["zeta", "management", "other"]
    assert admin.get("users/anna")[1]["tags"] == tags
    assert ManagementApi(broker.http_url, "anna", "tea").get("whoami")[1]["tags"] == tags
    assert admin.get("vhosts/tagged")[1]["tags"] == ["production", "critical"]
    (exported,) = [user for user in admin.get("definitions")[1]["users"] if user["name"] == "anna"]
    assert exported["tags"] == tags


@pytest.mark.feature("S4-72")
def test_a_put_changes_the_password_and_the_tags(broker: Broker, admin: ManagementApi) -> None:
    admin.put("users/anna", {"password": "one", "tags": ["management"]})
    assert may_log_in(broker, "anna", "one")
    assert admin.put("users/anna", {"password": "two", "tags": ["monitoring"]}) == (204, None)
    assert not may_log_in(broker, "anna", "one")
    assert may_log_in(broker, "anna", "two")
    assert admin.get("users/anna")[1]["tags"] == ["monitoring"]


@pytest.mark.parametrize(("algorithm", "name"), [("sha256", SHA256), ("sha512", SHA512)])
@pytest.mark.feature("S4-72")
def test_a_hash_of_rabbitmqs_is_taken_and_given_back(
    broker: Broker, admin: ManagementApi, algorithm: str, name: str
) -> None:
    hashed = salted("secret", algorithm)
    body = {"password_hash": hashed, "hashing_algorithm": name, "tags": "management"}
    assert admin.put("users/anna", body) == (201, None)
    shown = admin.get("users/anna")[1]
    assert (shown["password_hash"], shown["hashing_algorithm"]) == (hashed, name)
    assert not may_log_in(broker, "anna", "Secret")
    assert may_log_in(broker, "anna", "secret")


@pytest.mark.feature("S4-72")
def test_a_hash_without_an_algorithm_is_sha256(broker: Broker, admin: ManagementApi) -> None:
    admin.put("users/anna", {"password_hash": salted("secret"), "tags": "management"})
    assert may_log_in(broker, "anna", "secret")


@pytest.mark.feature("S4-72")
def test_a_password_that_nobody_used_yet_survives_a_change_of_tags(broker: Broker, admin: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.users.add("anna", password="tea", tags=()))
    status, shown = admin.get("users/anna")
    assert status == 200
    assert admin.put("users/anna", shown | {"tags": "management"})[0] == 204
    assert may_log_in(broker, "anna", "tea")


@pytest.mark.feature("S4-72")
def test_our_own_hash_moves_a_password_to_another_user(broker: Broker, admin: ManagementApi) -> None:
    admin.put("users/anna", {"password": "secret", "tags": "management"})
    ours = admin.get("users/anna")[1]
    body = {key: ours[key] for key in ("password_hash", "hashing_algorithm", "tags")}
    assert admin.put("users/berta", body) == (201, None)
    assert may_log_in(broker, "berta", "secret")


@pytest.mark.parametrize("body", [{"tags": "management"}, {"tags": "management", "password_hash": ""}])
@pytest.mark.feature("S4-72")
def test_without_a_password_nobody_can_log_in(broker: Broker, admin: ManagementApi, body: object) -> None:
    """And a PUT without one takes it away, as in RabbitMQ."""
    admin.put("users/anna", {"password": "secret", "tags": "management"})
    assert admin.put("users/anna", body) == (204, None)
    assert admin.get("users/anna")[1]["password_hash"] == ""
    assert not may_log_in(broker, "anna", "secret")
    assert not may_log_in(broker, "anna", "")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"password": "x"}, "has no 'tags'"),
        ({"password": "x", "tags": 5}, "'tags' must be a list of strings"),
        ({"password": 5, "tags": ""}, "'password' of user 'anna' must be a string"),
        ({"password": "x", "password_hash": "y", "tags": ""}, "both 'password' and 'password_hash'"),
        ({"password_hash": "xx", "tags": ""}, "not a hash of its algorithm"),
        ({"password_hash": "AAAA", "tags": ""}, "not a hash of its algorithm"),
        ({"password_hash": salted("x"), "hashing_algorithm": SHA512, "tags": ""}, "not a hash of its algorithm"),
        ({"password_hash": "$nothing$", "tags": ""}, "not an argon2 string"),
        ({"password_hash": "AA==", "hashing_algorithm": "md5", "tags": ""}, 'hashing_algorithm\' "md5"'),
        ({"password": "x", "tags": "", "limits": {"max-cows": 1}}, '"max-cows" is unknown'),
        ({"password": "x", "tags": "", "limits": {"max-channels": "many"}}, "'max-channels' must be a whole number"),
    ],
)
@pytest.mark.feature("S4-72")
def test_a_wrong_user_is_refused_with_its_cause(admin: ManagementApi, body: object, said: str) -> None:
    status, answer = admin.put("users/anna", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert said in answer["reason"]
    assert admin.get("users/anna")[0] == 404


@pytest.mark.feature("S4-72")
def test_a_refused_password_is_not_told(admin: ManagementApi) -> None:
    answer = admin.put("users/anna", {"password": ["hush"], "password_hash": None, "tags": ""})[1]
    assert "hush" not in str(answer)


@pytest.mark.feature("S4-72")
def test_a_deleted_user_loses_connections_and_permissions(broker: Broker, admin: ManagementApi) -> None:
    as_user(broker, "anna", vhosts=("/",))
    other = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    url = broker.amqp_url.replace("guest:guest", "anna:secret")
    connection = pika.BlockingConnection(pika.URLParameters(url))
    assert admin.delete("users/anna") == (204, None)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match="user 'anna' is deleted"):
        connection.process_data_events(5)
    other.process_data_events(0)
    assert other.is_open
    other.close()
    assert admin.delete("users/anna")[0] == 404
    assert [rule["user"] for rule in admin.get("permissions")[1]] == ["guest"]


@pytest.mark.feature("S4-72")
def test_users_are_deleted_together_or_not_at_all(admin: ManagementApi) -> None:
    for name in ("anna", "berta", "clara"):
        admin.put(f"users/{name}", {"tags": ""})
    status, answer = admin.post("users/bulk-delete", {"users": ["anna", "nobody"]})
    assert status == 400
    assert '"nobody"' in answer["reason"]
    assert admin.post("users/bulk-delete", {"users": ["anna", "berta", "anna"]}) == (204, None)
    assert names(admin.get("users")) == ["clara", "guest"]
    assert admin.post("users/bulk-delete", {})[0] == 400
    assert admin.post("users/bulk-delete", {"users": "clara"})[0] == 400


@pytest.mark.feature("S4-72")
def test_users_without_permissions_are_found(admin: ManagementApi) -> None:
    admin.put("users/anna", {"tags": ""})
    assert names(admin.get("users/without-permissions")) == ["anna"]
    admin.put("permissions/%2F/anna", {"configure": "", "write": "", "read": ""})
    assert names(admin.get("users/without-permissions")) == []


@pytest.mark.feature("S4-72")
def test_a_new_password_leaves_the_limits_of_a_user(admin: ManagementApi) -> None:
    admin.put("users/anna", {"password": "one", "tags": "", "limits": {"max-channels": 3, "max-connections": -1}})
    admin.put("users/anna", {"password": "two", "tags": ""})
    assert admin.get("users/anna")[1]["limits"] == {"max-channels": 3}


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
@pytest.mark.feature("S4-72")
def test_only_administrators_see_and_change_users(broker: Broker, admin: ManagementApi, tag: str) -> None:
    anna = as_user(broker, "anna", tag, vhosts=("/",))
    for path in ("users", "users/anna", "users/without-permissions", "users/anna/permissions"):
        assert anna.get(path)[0] == 403, path
    assert anna.put("users/anna", {"password": "x", "tags": "administrator"})[0] == 403
    assert anna.delete("users/guest")[0] == 403
    assert anna.post("users/bulk-delete", {"users": ["guest"]})[0] == 403
    assert admin.get("users/anna")[1]["tags"] == [tag]


@pytest.mark.feature("S4-72")
def test_users_outlive_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        admin = as_guest(broker)
        admin.put("users/anna", {"password": "one", "tags": "management"})
        admin.put("users/berta", {"password_hash": salted("two"), "tags": "management"})
    with Broker(settings) as broker:
        assert may_log_in(broker, "anna", "one")
        assert may_log_in(broker, "berta", "two")


@pytest.mark.feature("S4-72")
def test_a_user_of_an_unknown_name_is_not_found(admin: ManagementApi) -> None:
    for path in ("users/none", "users/none/permissions", "users/none/topic-permissions"):
        status, answer = admin.get(path)
        assert (status, answer["error"]) == (404, "Object Not Found"), path
