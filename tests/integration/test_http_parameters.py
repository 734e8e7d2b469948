"""Parameters, global parameters and limits over HTTP; what the broker notes for itself stays hidden."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pika
import pika.exceptions
import pytest

from leveret import Broker
from leveret.broker.parameters import CLUSTER_ID, COMPONENT
from tests.support.http_api import QUIET
from tests.support.management_api import ManagementApi, as_guest, as_user

SHORT = {"pattern": "^a", "definition": {"max-length": 5}, "priority": 0, "apply-to": "all"}


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def broker(broker: Broker) -> Broker:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    return broker


def parameter(component: str, name: str, value: object, vhost: str = "/") -> dict[str, object]:
    return {"value": value, "vhost": vhost, "component": component, "name": name}


# ---- parameters


@pytest.mark.feature("S4-77")
def test_limits_and_policies_are_parameters(admin: ManagementApi) -> None:
    """Policies only for those who ask for their component, as in RabbitMQ."""
    admin.put("vhost-limits/%2F/max-queues", {"value": 7})
    admin.put("operator-policies/%2F/old", SHORT)
    admin.put("policies/%2F/short", SHORT)
    limits, operator = (
        parameter("vhost-limits", "limits", {"max-queues": 7}),
        parameter("operator_policy", "old", SHORT),
    )
    assert admin.get("parameters") == (200, [limits, operator])
    assert admin.get("parameters/vhost-limits") == admin.get("parameters/vhost-limits/%2F") == (200, [limits])
    assert admin.get("parameters/policy") == (200, [parameter("policy", "short", SHORT)])
    assert admin.get("parameters/policy/other") == admin.get("parameters/shovel") == (200, [])
    assert admin.get("parameters/operator_policy/%2F/old") == (200, operator)
    assert admin.get("parameters/operator_policy/%2F/none")[0] == 404
    assert admin.get("parameters/policy/none")[0] == 404


@pytest.mark.parametrize(
    ("component", "name", "value"),
    [("vhost-limits", "limits", {"max-connections": 3}), ("policy", "p", SHORT), ("operator_policy", "p", SHORT)],
)
@pytest.mark.feature("S4-77")
def test_a_parameter_is_set_and_deleted(admin: ManagementApi, component: str, name: str, value: object) -> None:
    path = f"parameters/{component}/%2F/{name}"
    assert admin.put(path, {"value": value}) == (201, None)
    assert admin.put(path, {"value": value}) == (204, None)
    assert admin.get(path) == (200, parameter(component, name, value))
    assert admin.delete(path) == (204, None)
    assert admin.get(path)[0] == admin.delete(path)[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("shovel/%2F/s", {"value": {}}, "component shovel not found"),
        ("paused/%2F/q", {"value": True}, "component paused not found"),
        ("vhost-limits/%2F/other", {"value": {}}, "is named 'limits'"),
        ("vhost-limits/%2F/limits", {"value": {"max-cows": 1}}, '"max-cows" is unknown'),
        ("vhost-limits/%2F/limits", {"value": 5}, "limits must be a table"),
        ("vhost-limits/%2F/limits", {}, "is missing 'value'"),
        ("policy/%2F/p", {"value": []}, "must be a table"),
        ("policy/%2F/p", {"value": {**SHORT, "definition": {"foo": 1}}}, "'foo' is not a recognised policy setting"),
    ],
)
@pytest.mark.feature("S4-77")
def test_a_wrong_parameter_is_refused(admin: ManagementApi, path: str, body: object, said: str) -> None:
    status, answer = admin.put(f"parameters/{path}", body)
    assert (status, answer["error"]) == (400, "bad_request")
    assert said in answer["reason"]
    assert admin.get("parameters") == admin.get("parameters/policy") == (200, [])


@pytest.mark.feature("S4-77")
def test_what_the_broker_notes_for_itself_is_not_shown_or_changed(broker: Broker, admin: ManagementApi) -> None:
    own = [("paused", "q"), ("stream-offsets", "s"), ("vhost-metadata", "metadata"), ("global-parameter", "g")]
    parameters = broker.node.broker.vhosts["/"].parameters

    def note() -> None:
        for component, name in own:
            parameters.put(component, name, b"1")

    broker.call(note)
    assert admin.get("parameters") == (200, [])
    for component, name in own:
        assert admin.get(f"parameters/{component}") == admin.get(f"parameters/{component}/%2F") == (200, [])
        assert admin.get(f"parameters/{component}/%2F/{name}")[0] == 404
        assert admin.put(f"parameters/{component}/%2F/{name}", {"value": 2})[0] == 400
        assert admin.delete(f"parameters/{component}/%2F/{name}")[0] == 400
        assert broker.call(partial(parameters.get, component, name)) == b"1"


@pytest.mark.feature("S4-72")
def test_policymakers_see_parameters_and_set_policies_only(broker: Broker, admin: ManagementApi) -> None:
    admin.put("vhost-limits/%2F/max-queues", {"value": 7})
    admin.put("vhost-limits/other/max-queues", {"value": 7})
    paul = as_user(broker, "paul", "policymaker", vhosts=("/",))
    assert [row["vhost"] for row in paul.get("parameters")[1]] == ["/"]
    assert paul.get("parameters/vhost-limits/other")[0] == 403
    assert paul.put("parameters/policy/%2F/p", {"value": SHORT}) == (201, None)
    assert paul.put("parameters/policy/other/p", {"value": SHORT})[0] == 403
    assert paul.put("parameters/operator_policy/%2F/p", {"value": SHORT})[0] == 403
    assert paul.put("parameters/vhost-limits/%2F/limits", {"value": {}})[0] == 403
    assert paul.delete("parameters/vhost-limits/%2F/limits")[0] == 403
    assert admin.get("vhost-limits/%2F") == (200, [{"vhost": "/", "value": {"max-queues": 7}}])


@pytest.mark.parametrize("tag", ["management", "monitoring"])
@pytest.mark.feature("S4-72")
def test_others_do_not_see_parameters(broker: Broker, tag: str) -> None:
    anna = as_user(broker, "anna", tag, vhosts=("/",))
    for path in ("parameters", "parameters/policy", "parameters/policy/%2F", "global-parameters"):
        assert anna.get(path)[0] == 403, path
    assert anna.put("global-parameters/g", {"value": 1})[0] == 403


# ---- global parameters


def test_the_cluster_has_an_id_that_outlives_a_restart(tmp_path: Path) -> None:
    """Tools find it under RabbitMQ's name and in its form."""
    found = []
    for _ in range(2):
        with Broker(replace(QUIET, data_dir=tmp_path)) as broker:
            found.append(as_guest(broker).get("global-parameters/internal_cluster_id")[1])
    assert found[0]["name"] == "internal_cluster_id"
    assert found[0]["value"].startswith("rabbitmq-cluster-id-")
    assert found[0] == found[1]
    with Broker(QUIET) as another:
        assert as_guest(another).get("global-parameters")[1] != [found[0]]


@pytest.mark.feature("S4-77")
def test_a_global_parameter_is_set_shown_and_deleted(admin: ManagementApi) -> None:
    assert admin.put("global-parameters/g", {"value": {"a": [1, None, "ä"]}}) == (201, None)
    assert admin.put("global-parameters/g", {"value": {"a": 2}}) == (204, None)
    assert admin.get("global-parameters/g") == (200, {"name": "g", "value": {"a": 2}})
    assert {"name": "g", "value": {"a": 2}} in admin.get("global-parameters")[1]
    assert admin.put("global-parameters/h", {})[0] == 400
    assert admin.delete("global-parameters/g") == (204, None)
    assert admin.get("global-parameters/g")[0] == admin.delete("global-parameters/g")[0] == 404


@pytest.mark.feature("S4-71")
def test_global_parameters_outlive_the_vhost_and_the_broker(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        admin = as_guest(broker)
        admin.put("vhosts/other")
        admin.put("global-parameters/g", {"value": 1})
        assert admin.delete("vhosts/%2F") == (204, None)
        assert {"name": "g", "value": 1} in admin.get("global-parameters")[1]
    with Broker(settings) as broker:
        admin = as_guest(broker)
        assert {"name": "g", "value": 1} in admin.get("global-parameters")[1]
        assert admin.put("global-parameters/g", {"value": 2}) == (204, None)
        assert {"name": "g", "value": 2} in admin.get("global-parameters")[1]


@pytest.mark.feature("S4-71")
def test_global_parameters_outlive_a_vhost_that_is_deleted_in_the_process(tmp_path: Path) -> None:
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        as_guest(broker).put("global-parameters/g", {"value": 1})
        broker.call(lambda: broker.node.broker.delete_vhost("/"))
        assert {"name": "g", "value": 1} in as_guest(broker).get("global-parameters")[1]
        as_guest(broker).put("vhosts/other")
    with Broker(settings) as broker:
        assert {"name": "g", "value": 1} in as_guest(broker).get("global-parameters")[1]


def own_parameters(broker: Broker) -> list[object]:
    """Without the one that the broker makes."""
    return [row for row in as_guest(broker).get("global-parameters")[1] if row["name"] != CLUSTER_ID]


@pytest.mark.feature("S4-71")
def test_global_parameters_of_earlier_versions_are_moved_out_of_their_vhost(tmp_path: Path) -> None:
    """They were rows of a virtual host. Where both places have a name, the new one counts."""
    settings = replace(QUIET, data_dir=tmp_path)
    with Broker(settings) as broker:
        old = broker.node.broker.vhost("/").parameters
        broker.call(lambda: old.put(COMPONENT, "kept", b'{"a": [1]}'))
        broker.call(lambda: old.put(COMPONENT, "both", b'"old"'))
        broker.call(lambda: old.put("component", "kept", b"is another's"))
        as_guest(broker).put("global-parameters/both", {"value": "new"})
    expected = [{"name": "both", "value": "new"}, {"name": "kept", "value": {"a": [1]}}]
    for _ in range(2):
        with Broker(settings) as broker:
            assert own_parameters(broker) == expected
            left = broker.node.broker.vhost("/").parameters
            assert left.names(COMPONENT) == []
            assert left.get("component", "kept") == b"is another's"
    with Broker(settings) as broker:
        as_guest(broker).put("vhosts/other")
        broker.call(lambda: broker.node.broker.delete_vhost("/"))
    with Broker(settings) as broker:
        assert own_parameters(broker) == expected


# ---- limits


@pytest.mark.feature("S4-71")
def test_a_limit_of_queues_holds(broker: Broker, admin: ManagementApi) -> None:
    assert admin.put("vhost-limits/%2F/max-queues", {"value": 1}) == (204, None)
    connection = pika.BlockingConnection(pika.URLParameters(broker.amqp_url))
    connection.channel().queue_declare("a")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"queue limit in vhost '/' \(1\) is reached"):
        connection.channel().queue_declare("b")
    assert admin.delete("vhost-limits/%2F/max-queues") == (204, None)
    connection.channel().queue_declare("b")
    connection.close()


@pytest.mark.feature("S4-71")
def test_limits_of_vhosts_are_shown(broker: Broker, admin: ManagementApi) -> None:
    admin.put("vhost-limits/%2F/max-queues", {"value": 9})
    admin.put("vhost-limits/%2F/max-connections", {"value": 5})
    admin.put("vhost-limits/other/max-connections", {"value": 0})
    root = {"vhost": "/", "value": {"max-connections": 5, "max-queues": 9}}
    other = {"vhost": "other", "value": {"max-connections": 0}}
    assert admin.get("vhost-limits") == (200, [root, other])
    assert admin.get("vhost-limits/%2F") == (200, [root])
    assert as_user(broker, "anna", "management", vhosts=("/",)).get("vhost-limits") == (200, [root])
    admin.put("vhost-limits/other/max-connections", {"value": -1})
    assert admin.get("vhost-limits/other") == (200, [])


@pytest.mark.feature("S4-72")
def test_a_limit_of_a_user_holds(broker: Broker, admin: ManagementApi) -> None:
    as_user(broker, "anna", vhosts=("/",))
    assert admin.put("user-limits/anna/max-connections", {"value": 1}) == (204, None)
    assert admin.put("user-limits/anna/max-channels", {"value": 4}) == (204, None)
    row = {"user": "anna", "value": {"max-connections": 1, "max-channels": 4}}
    assert admin.get("user-limits") == admin.get("user-limits/anna") == (200, [row])
    url = pika.URLParameters(broker.amqp_url.replace("guest:guest", "anna:secret"))
    connection = pika.BlockingConnection(url)
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"user connection limit \(1\) is reached"):
        pika.BlockingConnection(url)
    connection.close()
    assert admin.delete("user-limits/anna/max-connections") == (204, None)
    assert admin.get("user-limits/anna") == (200, [{"user": "anna", "value": {"max-channels": 4}}])


@pytest.mark.feature("S4-72")
def test_users_see_their_own_limits(broker: Broker, admin: ManagementApi) -> None:
    anna = as_user(broker, "anna", "management")
    for name in ("anna", "guest"):
        admin.put(f"user-limits/{name}/max-channels", {"value": 4})
    assert [row["user"] for row in anna.get("user-limits")[1]] == ["anna"]
    assert anna.get("user-limits/anna")[0] == 200
    assert anna.get("user-limits/guest")[0] == 403
    assert [row["user"] for row in as_user(broker, "mona", "monitoring").get("user-limits")[1]] == ["anna", "guest"]
    assert admin.get("user-limits/none")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "said"),
    [
        ("vhost-limits/%2F/max-cows", {"value": 1}, 400, "limit 'max-cows' is unknown"),
        ("vhost-limits/%2F/max-queues", {"value": "a"}, 400, "'max-queues' must be a whole number"),
        ("vhost-limits/%2F/max-queues", {"value": 1 << 70}, 400, "'max-queues' must be a whole number"),
        ("vhost-limits/%2F/max-queues", {"value": True}, 400, "'max-queues' must be a whole number"),
        ("vhost-limits/%2F/max-queues", {}, 400, "is missing 'value'"),
        ("vhost-limits/none/max-queues", {"value": 1}, 404, "vhost 'none' not found"),
        ("user-limits/guest/max-queues", {"value": 1}, 400, "limit 'max-queues' is unknown"),
        ("user-limits/guest/max-channels", {"value": 1.5}, 400, "'max-channels' must be a whole number"),
        ("user-limits/none/max-channels", {"value": 1}, 400, "user 'none' not found"),
    ],
)
@pytest.mark.feature("S4-71", "S4-72")
def test_a_wrong_limit_is_refused(admin: ManagementApi, path: str, body: object, status: int, said: str) -> None:
    got, answer = admin.put(path, body)
    assert got == status
    assert said in answer["reason"]
    assert admin.get("vhost-limits") == admin.get("user-limits") == (200, [])


@pytest.mark.feature("S4-72")
def test_only_administrators_set_limits(broker: Broker, admin: ManagementApi) -> None:
    paul = as_user(broker, "paul", "policymaker", vhosts=("/",))
    for path in ("vhost-limits/%2F/max-queues", "user-limits/paul/max-channels"):
        assert paul.put(path, {"value": 1})[0] == 403
        assert paul.delete(path)[0] == 403
    assert admin.get("vhost-limits") == admin.get("user-limits") == (200, [])
