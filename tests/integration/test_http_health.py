"""S4-77: health checks say 200 when all is well, and 503 with the reason when it is not."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from leveret import Broker, Settings
from leveret.api.certificate_dates import certificate_end
from tests.support.management_api import ManagementApi, as_guest, as_user, in_path

OK = {"status": "ok"}


pytestmark = pytest.mark.broker(fresh=True)


@pytest.fixture
def api(broker: Broker) -> ManagementApi:
    return as_guest(broker)


def set_alarm(broker: Broker, reason: str | None) -> None:
    broker.call(lambda: broker.node.broker.set_alarm("memory", reason))


@pytest.mark.parametrize("check", ["health/checks/alarms", "health/checks/local-alarms", "healthchecks/node"])
@pytest.mark.feature("S4-77")
def test_an_alarm_makes_checks_fail_until_it_is_over(broker: Broker, api: ManagementApi, check: str) -> None:
    assert api.get(check) == (200, OK)
    set_alarm(broker, "memory high watermark exceeded")
    status, answer = api.get(check)
    assert (status, answer["status"]) == (503, "failed")
    assert "memory high watermark exceeded" in answer["reason"]
    set_alarm(broker, None)
    assert api.get(check) == (200, OK)


@pytest.mark.parametrize("check", ["health/checks/alarms", "health/checks/local-alarms", "healthchecks/node"])
def test_checks_fail_while_deliveries_are_paused(broker: Broker, api: ManagementApi, check: str) -> None:
    core = broker.node.broker
    broker.call(lambda: core.pause_deliveries("the replicated log does not answer"))
    status, answer = api.get(check)
    assert (status, answer["status"]) == (503, "failed")
    assert "the replicated log does not answer" in answer["reason"]
    broker.call(core.resume_deliveries)
    assert api.get(check) == (200, OK)


def test_a_port_is_listened_on_or_not(broker: Broker, api: ManagementApi) -> None:
    port = urlsplit(broker.amqp_url).port
    assert api.get(f"health/checks/port-listener/{port}") == (200, {"status": "ok", "port": port})
    status, answer = api.get("health/checks/port-listener/1")
    assert (status, answer["status"], answer["missing"]) == (503, "failed", 1)
    assert port in answer["ports"]


@pytest.mark.parametrize("port", ["x", "0", "65536", "-1", "99999999999999999999", "%C2%B2"])
def test_what_is_no_port_is_refused(api: ManagementApi, port: str) -> None:
    status, answer = api.get(f"health/checks/port-listener/{port}")
    assert (status, answer["error"]) == (400, "bad_request")


@pytest.mark.parametrize("protocol", ["amqp", "amqp091", "http", "AMQP"])
def test_a_protocol_is_spoken(api: ManagementApi, protocol: str) -> None:
    assert api.get(f"health/checks/protocol-listener/{protocol}")[0] == 200


@pytest.mark.parametrize("protocol", ["mqtt", "amqp/ssl", "amqps"])
def test_a_protocol_is_not_spoken(api: ManagementApi, protocol: str) -> None:
    status, answer = api.get(f"health/checks/protocol-listener/{protocol}")
    assert (status, answer["reason"], answer["protocols"]) == (503, "No active listener", ["amqp", "http"])


def test_a_store_that_is_lost_takes_the_virtual_hosts_down(broker: Broker, api: ManagementApi) -> None:
    assert api.get("health/checks/virtual-hosts") == (200, OK)
    broker.call(broker.node.broker.lost)
    status, answer = api.get("health/checks/virtual-hosts")
    assert (status, answer["virtual-hosts"][0]["vhost"]) == (503, "/")


def test_one_node_is_never_the_last_of_a_quorum(api: ManagementApi) -> None:
    for name in ("node-is-quorum-critical", "node-is-mirror-sync-critical"):
        assert api.get(f"health/checks/{name}") == (200, {"status": "ok", "reason": "single node cluster"})


def test_a_node_that_stops_is_not_in_service(broker: Broker, api: ManagementApi) -> None:
    assert api.get("health/checks/is-in-service") == (200, OK)
    broker.call(lambda: setattr(broker.node.broker, "is_stopping", True))
    assert api.get("health/checks/is-in-service")[0] == 503


def test_the_old_check_takes_the_name_of_this_node_only(broker: Broker, api: ManagementApi) -> None:
    assert api.get(f"healthchecks/node/{in_path(broker.node.broker.node_name)}") == (200, OK)
    assert api.get("healthchecks/node/elsewhere")[0] == 404


@pytest.mark.feature("S4-72")
def test_the_old_check_needs_no_more_than_the_others(broker: Broker) -> None:
    """A load balancer that asks RabbitMQ has a user for it with no more than the tag management."""
    assert as_user(broker, "probe", "management").get("healthchecks/node") == (200, OK)
    assert as_user(broker, "nobody").get("healthchecks/node")[0] == 401


# ---- certificates


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from datetime import UTC, datetime, timedelta

    path = tmp_path_factory.mktemp("tls") / "server.pem"
    issued = trustme.CA().issue_cert("localhost", not_after=datetime.now(UTC) + timedelta(days=20))
    issued.private_key_and_cert_chain_pem.write_to_path(path)
    return path


@pytest.mark.feature("S4-77")
def test_a_certificate_that_ends_soon_is_reported(certificate: Path) -> None:
    settings = Settings(
        amqp_port=0,
        amqps_port=0,
        http_port=0,
        https_port=0,
        stomp_port=None,
        tls_cert=certificate,
        shutdown_timeout=0.5,
    )
    with Broker(settings) as broker:
        api = as_guest(broker)
        assert api.get("health/checks/certificate-expiration/2/weeks") == (200, OK)
        status, answer = api.get("health/checks/certificate-expiration/1/months")
        assert (status, answer["reason"]) == (503, "Certificates expiring")
        assert api.get("health/checks/protocol-listener/amqps")[0] == 200
        broker.clock.advance(15 * 86_400)
        assert api.get("health/checks/certificate-expiration/1/weeks")[0] == 503


def test_without_tls_nothing_ends(api: ManagementApi) -> None:
    assert api.get("health/checks/certificate-expiration/10/years") == (200, OK)


@pytest.mark.parametrize(
    ("asked", "reason"),
    [("1/fortnights", "Time unit not recognised"), ("x/days", "Invalid expiration value"), ("0/days", "Invalid")],
)
def test_periods_that_are_none_are_refused(api: ManagementApi, asked: str, reason: str) -> None:
    status, answer = api.get(f"health/checks/certificate-expiration/{asked}")
    assert status == 400
    assert reason in answer["reason"]


def test_the_end_of_a_certificate_is_read_as_others_read_it(certificate: Path) -> None:
    from cryptography.x509 import load_pem_x509_certificate

    text = certificate.read_text()
    own = text[text.index("-----BEGIN CERTIFICATE") :]
    assert certificate_end(text) == load_pem_x509_certificate(own.encode()).not_valid_after_utc.timestamp()


@pytest.mark.parametrize("text", ["", "-----BEGIN CERTIFICATE-----\nMAMC\n-----END CERTIFICATE-----\n"])
def test_a_file_without_a_whole_certificate_is_told(text: str) -> None:
    with pytest.raises(ValueError, match="certificate"):
        certificate_end(text)


# ---- aliveness


@pytest.mark.feature("S4-77")
def test_a_message_goes_through_a_queue_and_back(broker: Broker, api: ManagementApi) -> None:
    for _ in range(2):
        assert api.get("aliveness-test/%2F") == (200, OK)
    queue = broker.node.broker.vhosts["/"].queues["aliveness-test"]
    assert (queue.counters.received, queue.counters.got, queue.ready) == (2, 2, 0)


def test_a_message_that_does_not_come_back_is_no_sign_of_life(broker: Broker, api: ManagementApi) -> None:
    local = broker.vhost()
    local.declare_queue("aliveness-test", arguments={"x-max-length": 0})
    status, answer = api.get("aliveness-test/%2F")
    assert (status, answer["status"]) == (503, "failed")
    assert "queue 'aliveness-test' in vhost '/'" in answer["reason"]


def test_publishers_that_wait_are_no_sign_of_life(broker: Broker, api: ManagementApi) -> None:
    set_alarm(broker, "memory high watermark exceeded")
    status, answer = api.get("aliveness-test/%2F")
    assert (status, answer["reason"]) == (503, "publishers are blocked: memory high watermark exceeded")


@pytest.mark.feature("S4-72")
def test_the_test_needs_the_permissions_that_it_uses(broker: Broker) -> None:
    anna = as_user(broker, "anna", "management")
    assert anna.get("aliveness-test/%2F")[0] == 403
    broker.call(lambda: broker.node.broker.permissions.set("anna", "/", "", ".*", ".*"))
    status, answer = anna.get("aliveness-test/%2F")
    assert status == 403
    assert "configure access to queue 'aliveness-test'" in answer["reason"]
    assert anna.get("aliveness-test/none")[0] == 404


@pytest.mark.parametrize("path", ["health/checks/alarms", "health/checks/is-in-service", "aliveness-test/%2F"])
@pytest.mark.feature("S4-72")
def test_checks_are_for_management_users(broker: Broker, path: str) -> None:
    assert as_user(broker, "nobody").get(path)[0] == 401


@pytest.mark.parametrize("number", ["5672" + "0" * 4_400, "000005672" + "0" * 4_400, "0000000001", "9" * 10])
def test_a_number_of_any_length_is_refused_and_no_bug(api: ManagementApi, number: str) -> None:
    status, answer = api.get(f"health/checks/port-listener/{number}")
    assert (status, answer["reason"].startswith("Invalid port: ")) == (400, True)
    assert len(answer["reason"]) < 200
    status, answer = api.get(f"health/checks/certificate-expiration/{number}/days")
    assert (status, answer["reason"].startswith("Invalid expiration value: ")) == (400, True)
    assert len(answer["reason"]) < 200
