"""S4-77: who is connected, with which channels; connections are closed from here."""

from __future__ import annotations

import ssl
from pathlib import Path

import pika
import pytest
import trustme
from pika.exceptions import ConnectionClosedByBroker

from leveret import Broker, FrozenClock, Settings
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path
from tests.support.raw_client import eventually
from tests.support.running_clients import client, name_of

pytestmark = pytest.mark.broker(fresh=True, clock=FrozenClock)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


@pytest.mark.feature("S4-77")
def test_a_connection_tells_who_it_is(broker: Broker, api: ManagementApi) -> None:
    with client(broker, "orders") as channel:
        name = name_of(api, "orders")
        status, row = api.get(f"connections/{in_path(name)}")
        own_port = channel.connection._impl._transport._sock.getsockname()[1]
    assert status == 200
    assert row["name"] == f"127.0.0.1:{own_port} -> 127.0.0.1:{row['port']}"
    assert (row["peer_host"], row["peer_port"], row["host"]) == ("127.0.0.1", own_port, "127.0.0.1")
    assert (row["user"], row["vhost"], row["protocol"]) == ("guest", "/", "AMQP 0-9-1")
    assert (row["state"], row["channels"], row["auth_mechanism"]) == ("running", 1, "PLAIN")
    assert (row["timeout"], row["frame_max"], row["channel_max"]) == (60, 131072, 2047)
    assert row["connected_at"] == int(broker.clock.core.wall() * 1000)
    assert row["client_properties"]["product"].startswith("Pika")
    assert (row["ssl"], row["ssl_protocol"], row["type"]) == (False, "", "network")


@pytest.mark.parametrize("size", [1_000, 20_000])  # small answers are joined to one write, large ones are not
@pytest.mark.feature("S4-77")
def test_bytes_are_counted_with_their_rates(broker: Broker, api: ManagementApi, size: int) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        path = f"connections/{in_path(name_of(api))}"
        broker.clock.advance(5)
        before = api.get(path)[1]
        channel.basic_publish("", "a", b"x" * size)
        channel.basic_get("a", auto_ack=True)
        broker.clock.advance(5)
        after = api.get(path)[1]
    for count, calls in (("recv_oct", "recv_cnt"), ("send_oct", "send_cnt")):
        grown = after[count] - before[count]
        assert size < grown < size + 500
        assert after[f"{count}_details"]["rate"] == grown / 5
        assert after[calls] > before[calls]


def test_connections_are_listed_by_virtual_host_and_by_user(broker: Broker, api: ManagementApi) -> None:
    broker.call(lambda: broker.node.broker.add_vhost("other"))
    as_user(broker, "anna", "management", vhosts=("/",))
    with client(broker, "hers", "anna", "secret"), client(broker, "ours"):
        assert {row["user"] for row in api.get("connections")[1]} == {"anna", "guest"}
        assert [row["user"] for row in api.get("connections/username/anna")[1]] == ["anna"]
        assert api.get("connections/username/nobody") == (200, [])
        assert len(api.get("vhosts/%2F/connections")[1]) == 2
        assert api.get("vhosts/other/connections") == (200, [])
        page = api.get("connections", page=1, page_size=1, sort="user", columns="user")[1]
    assert (page["total_count"], page["items"]) == (2, [{"user": "anna"}])
    assert api.get("vhosts/none/connections")[0] == 404


@pytest.mark.feature("S4-72")
def test_users_see_their_own_connections_and_monitoring_users_all(broker: Broker) -> None:
    anna = as_user(broker, "anna", "management", vhosts=("/",))
    max_ = as_user(broker, "max", "monitoring")
    with client(broker, "hers", "anna", "secret"), client(broker, "ours"):
        names = {row["user_provided_name"]: in_path(row["name"]) for row in max_.get("connections")[1]}
        assert names.keys() == {"hers", "ours"}
        assert [row["user"] for row in anna.get("connections")[1]] == ["anna"]
        assert [row["user"] for row in anna.get("channels")[1]] == ["anna"]
        assert anna.get(f"connections/{names['hers']}")[0] == 200
        assert anna.get(f"connections/{names['ours']}")[0] == 403
        assert anna.get(f"connections/{names['ours']}/channels")[0] == 403
        assert anna.delete(f"connections/{names['ours']}")[0] == 403
        assert anna.delete("connections/username/guest")[0] == 403
        assert max_.delete("connections/username/guest")[0] == 403
        assert len(max_.get("connections")[1]) == 2


@pytest.mark.feature("S4-77")
def test_a_connection_is_closed_and_its_client_told_why(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        api.http.headers["X-Reason"] = "moving house"
        path = f"connections/{in_path(name_of(api))}"
        assert api.delete(path) == (204, None)
        with pytest.raises(ConnectionClosedByBroker, match=r"320.*CONNECTION_FORCED - moving house"):
            channel.connection.process_data_events(10)
    assert api.get(path)[0] == api.delete(path)[0] == 404
    assert api.get("connections") == (200, [])


def test_all_connections_of_a_user_are_closed(broker: Broker, api: ManagementApi) -> None:
    as_user(broker, "anna", vhosts=("/",))
    with client(broker, "one", "anna", "secret") as one, client(broker, "two", "anna", "secret") as two, client(broker):
        assert api.delete("connections/username/anna") == (204, None)
        for channel in (one, two):
            with pytest.raises(ConnectionClosedByBroker, match="Closed via management plugin"):
                channel.connection.process_data_events(10)
        assert [row["user"] for row in api.get("connections")[1]] == ["guest"]
    assert api.delete("connections/username/anna") == (204, None)


def test_a_blocked_connection_says_so(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x")
        channel.queue_declare("a", passive=True)
        broker.call(lambda: broker.node.broker.set_alarm("memory", "too much"))
        assert api.get("connections")[1][0]["state"] == "running"
        channel.basic_publish("", "a", b"x")
        eventually(lambda: api.get("connections")[1][0]["state"] == "blocked")
        broker.call(lambda: broker.node.broker.set_alarm("memory", None))
        assert api.get("connections")[1][0]["state"] == "running"


# ---- channels


@pytest.mark.feature("S4-77")
def test_a_channel_tells_what_it_does(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=7)
        channel.queue_declare("a")
        for _ in range(5):
            channel.basic_publish("", "a", b"x")
        channel.basic_consume("a", lambda *_: None, consumer_tag="mine")
        broker.clock.advance(5)
        name = f"{name_of(api)} (1)"
        status, row = api.get(f"channels/{in_path(name)}")
        listed = api.get("channels")[1]
        of_connection = api.get(f"connections/{in_path(name_of(api))}/channels")[1]
        of_vhost = api.get("vhosts/%2F/channels")[1]
    assert status == 200
    assert [each["name"] for each in listed] == [name]
    assert listed == of_connection == of_vhost
    assert (row["name"], row["number"], row["user"], row["vhost"]) == (name, 1, "guest", "/")
    assert (row["confirm"], row["transactional"], row["state"]) == (True, False, "running")
    assert (row["prefetch_count"], row["global_prefetch_count"], row["consumer_count"]) == (7, 0, 1)
    assert (row["messages_unacknowledged"], row["messages_unconfirmed"]) == (5, 0)
    stats = row["message_stats"]
    assert (stats["publish"], stats["publish_details"]["rate"], stats["confirm"]) == (5, 1.0, 5)
    assert stats["deliver_get"] == 5
    assert [each["consumer_tag"] for each in row["consumer_details"]] == ["mine"]


def test_a_transaction_shows_what_is_not_committed(broker: Broker, api: ManagementApi) -> None:
    with client(broker) as channel:
        channel.queue_declare("a")
        channel.basic_publish("", "a", b"x")
        method, _, _ = channel.basic_get("a")
        channel.tx_select()
        channel.basic_publish("", "a", b"x")
        channel.basic_publish("", "a", b"y")
        channel.basic_ack(method.delivery_tag)
        channel.queue_declare("a", passive=True)
        row = api.get("channels")[1][0]
    assert (row["transactional"], row["messages_uncommitted"], row["acks_uncommitted"]) == (True, 2, 1)


def test_a_channel_that_is_not_there(api: ManagementApi) -> None:
    status, answer = api.get("channels/nobody")
    assert (status, answer["error"]) == (404, "Object Not Found")
    assert "no channel 'nobody'" in answer["reason"]


@pytest.mark.feature("S4-77")
def test_a_connection_over_tls_tells_how_it_is_encrypted(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.issue_cert("localhost").private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    authority.cert_pem.write_to_path(tmp_path / "authority.pem")
    settings = Settings(
        amqp_port=None,
        amqps_port=0,
        http_port=0,
        https_port=None,
        stomp_port=None,
        tls_cert=tmp_path / "server.pem",
        tls_ca=tmp_path / "authority.pem",
        shutdown_timeout=0.5,
    )
    context = ssl.create_default_context()
    authority.configure_trust(context)
    authority.issue_cert("anna@harness", common_name="anna").configure_cert(context)
    with Broker(settings) as broker:
        parameters = pika.URLParameters(broker.amqps_url)
        parameters.ssl_options = pika.SSLOptions(context, "localhost")
        connection = pika.BlockingConnection(parameters)
        (row,) = as_guest(broker).get("connections")[1]
        connection.close()
    assert (row["ssl"], row["ssl_protocol"]) == (True, "tlsv1.3")
    assert row["ssl_cipher"].startswith("TLS_")
    assert row["peer_cert_subject"] == "anna"
    assert "GMT - " in row["peer_cert_validity"]


@pytest.mark.feature("S4-72")
def test_a_secret_that_a_client_tells_of_itself_is_not_passed_on(broker: Broker, api: ManagementApi) -> None:
    """Some libraries send their address along, or all their settings."""
    address = "amqp://anna:hunter2@shop:5672/orders"
    parameters = pika.URLParameters(broker.amqp_url)
    parameters.client_properties = {
        "connection_name": address,
        "password": "hunter2",
        "settings": {"urls": [address, "https://example.org/docs"], "token": "hunter2"},
    }
    connection = pika.BlockingConnection(parameters)
    try:
        (row,) = api.get("connections")[1]
    finally:
        connection.close()
    assert "hunter2" not in str(row)
    assert row["user_provided_name"] == "amqp://anna:***@shop:5672/orders"
    told = row["client_properties"]
    assert told["settings"]["urls"] == ["amqp://anna:***@shop:5672/orders", "https://example.org/docs"]
    assert (told["password"], told["settings"]["token"]) == ("***", "***")


@pytest.mark.feature("S4-72")
def test_who_may_watch_connections_may_not_close_those_of_others(broker: Broker, api: ManagementApi) -> None:
    """As in RabbitMQ: the tag monitoring shows them, administrator closes them."""
    max_ = as_user(broker, "max", "monitoring", vhosts=("/",))
    with client(broker) as channel, client(broker, "own", "max", "secret"):
        path = f"connections/{in_path(name_of(api))}"
        assert max_.get(path)[0] == 200
        status, answer = max_.delete(path)
        assert (status, answer["error"]) == (403, "access_refused")
        assert "needs the tag 'administrator'" in answer["reason"]
        channel.queue_declare("still open")
        assert max_.delete(f"connections/{in_path(name_of(api, 'own'))}") == (204, None)
