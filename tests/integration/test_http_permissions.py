"""Permissions and topic permissions over HTTP, and that they hold over AMQP."""

from __future__ import annotations

import pika
import pika.exceptions
import pytest

from leveret import Broker
from tests.support.management_api import ManagementApi, as_guest, as_user

ALL = {"configure": ".*", "write": ".*", "read": ".*"}


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def admin(broker: Broker) -> ManagementApi:
    as_user(broker, "anna")
    return as_guest(broker)


def connect(broker: Broker) -> pika.BlockingConnection:
    return pika.BlockingConnection(pika.URLParameters(broker.amqp_url.replace("guest:guest", "anna:secret")))


@pytest.mark.feature("S4-72")
def test_permissions_are_given_changed_and_shown(admin: ManagementApi) -> None:
    assert admin.put("permissions/%2F/anna", ALL) == (201, None)
    assert admin.put("permissions/%2F/anna", {**ALL, "configure": "^a"}) == (204, None)
    row = {"user": "anna", "vhost": "/", "configure": "^a", "write": ".*", "read": ".*"}
    guest = {"user": "guest", "vhost": "/", **ALL}
    assert admin.get("permissions/%2F/anna") == (200, row)
    assert admin.get("permissions") == (200, [row, guest])
    assert admin.get("users/anna/permissions") == (200, [row])
    assert admin.get("vhosts/%2F/permissions") == (200, [row, guest])


@pytest.mark.feature("S4-72")
def test_what_is_set_over_http_holds_over_amqp(broker: Broker, admin: ManagementApi) -> None:
    admin.put("permissions/%2F/anna", {**ALL, "configure": "^mine"})
    connection = connect(broker)
    connection.channel().queue_declare("mine.q")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("yours.q")
    connection.close()


@pytest.mark.feature("S4-72")
def test_permissions_taken_away_hold_at_once_and_leave_the_connection_open(
    broker: Broker, admin: ManagementApi
) -> None:
    admin.put("permissions/%2F/anna", ALL)
    connection = connect(broker)
    connection.channel().queue_declare("q")
    assert admin.delete("permissions/%2F/anna") == (204, None)
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        connection.channel().queue_declare("r")
    assert connection.is_open
    connection.close()
    assert admin.get("permissions/%2F/anna")[0] == 404
    assert admin.delete("permissions/%2F/anna")[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("%2F/anna", {"configure": ""}, "is missing 'write', 'read'"),
        ("%2F/anna", {**ALL, "read": 5}, "'read' must be a string"),
        ("%2F/anna", {**ALL, "read": "["}, "permissions of user 'anna' in vhost '/': pattern '['"),
        ("%2F/nobody", ALL, "user 'nobody' not found"),
        ("none/anna", ALL, "vhost 'none' not found"),
    ],
)
@pytest.mark.feature("S4-72")
def test_wrong_permissions_are_refused(admin: ManagementApi, path: str, body: object, said: str) -> None:
    status, answer = admin.put(f"permissions/{path}", body)
    assert status == 400
    assert said in answer["reason"]
    assert len(admin.get("permissions")[1]) == 1


@pytest.mark.feature("S4-72")
def test_topic_permissions_are_by_exchange_and_go_together(admin: ManagementApi) -> None:
    path = "topic-permissions/%2F/anna"
    assert admin.get(path)[0] == admin.delete(path)[0] == 404
    assert admin.put(path, {"exchange": "amq.topic", "write": "^a", "read": ".*"}) == (201, None)
    assert admin.put(path, {"exchange": "amq.topic", "write": "^b", "read": ".*"}) == (204, None)
    assert admin.put(path, {"exchange": "logs", "write": "", "read": ""}) == (204, None)
    rows = [
        {"user": "anna", "vhost": "/", "exchange": "amq.topic", "write": "^b", "read": ".*"},
        {"user": "anna", "vhost": "/", "exchange": "logs", "write": "", "read": ""},
    ]
    for shown in (path, "topic-permissions", "users/anna/topic-permissions", "vhosts/%2F/topic-permissions"):
        assert admin.get(shown) == (200, rows)
    assert admin.delete(path) == (204, None)
    assert admin.get("topic-permissions") == (200, [])


@pytest.mark.feature("S4-72")
def test_a_topic_permission_of_one_exchange_is_shown_and_deleted_alone(admin: ManagementApi) -> None:
    """rabbit-hole, and with it the topology operator of Kubernetes, deletes them one by one."""
    path = "topic-permissions/%2F/anna"
    for exchange in ("amq.topic", "a/b", ""):
        admin.put(path, {"exchange": exchange, "write": "^a", "read": ".*"})
    row = {"user": "anna", "vhost": "/", "exchange": "a/b", "write": "^a", "read": ".*"}
    assert admin.get(f"{path}/a%2Fb") == (200, [row])
    assert admin.delete(f"{path}/a%2Fb") == (204, None)
    for status, answer in (admin.get(f"{path}/a%2Fb"), admin.delete(f"{path}/a%2Fb")):
        assert (status, "no topic permissions for exchange 'a/b'" in answer["reason"]) == (404, True)
    assert [row["exchange"] for row in admin.get(path)[1]] == ["", "amq.topic"]
    assert admin.delete(f"{path}/amq.default") == (204, None), "the default exchange has no name of its own"
    assert [row["exchange"] for row in admin.get(path)[1]] == ["amq.topic"]


@pytest.mark.feature("S4-72")
def test_topic_permissions_hold_over_amqp(broker: Broker, admin: ManagementApi) -> None:
    admin.put("permissions/%2F/anna", ALL)
    admin.put("topic-permissions/%2F/anna", {"exchange": "amq.topic", "write": "^news", "read": ".*"})
    connection = connect(broker)
    channel = connection.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.topic", "news.today", b"")
    with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="ACCESS_REFUSED"):
        channel.basic_publish("amq.topic", "olds.today", b"")
    connection.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"write": "", "read": ""}, "is missing 'exchange'"),
        ({"exchange": "e" * 256, "write": "", "read": ""}, "at most 255 bytes"),
        ({"exchange": "e", "write": "(", "read": ""}, "for exchange 'e': pattern '('"),
    ],
)
@pytest.mark.feature("S4-72")
def test_wrong_topic_permissions_are_refused(admin: ManagementApi, body: object, said: str) -> None:
    status, answer = admin.put("topic-permissions/%2F/anna", body)
    assert status == 400
    assert said in answer["reason"]
    assert admin.get("topic-permissions") == (200, [])


@pytest.mark.parametrize("tag", ["management", "policymaker", "monitoring"])
@pytest.mark.feature("S4-72")
def test_only_administrators_see_and_give_permissions(broker: Broker, admin: ManagementApi, tag: str) -> None:
    berta = as_user(broker, "berta", tag, vhosts=("/",))
    for kind in ("permissions", "topic-permissions"):
        assert berta.get(kind)[0] == 403
        assert berta.get(f"{kind}/%2F/berta")[0] == 403
        assert berta.put(f"{kind}/%2F/anna", {**ALL, "exchange": "e"})[0] == 403
        assert berta.delete(f"{kind}/%2F/guest")[0] == 403
    assert berta.get("topic-permissions/%2F/anna/e")[0] == 403
    assert berta.delete("topic-permissions/%2F/anna/e")[0] == 403
    assert admin.get("users/anna/permissions") == (200, [])
