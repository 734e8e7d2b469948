"""CWE-1392, use of default credentials: a broker inside a process listens on loopback, which every user of the machine
can reach."""

from __future__ import annotations

import leveret
from leveret.wire.methods import ConnectionTune
from tests.support.raw_client import RawClient


def logs_in(url: str, user: str, password: str) -> bool:
    with RawClient(url, timeout=10.0) as client:
        client.login(response=f"\0{user}\0{password}".encode())
        try:
            client.expect(ConnectionTune, 0)
        except AssertionError:
            return False
        return True


def test_a_broker_made_without_settings_has_no_password_that_can_be_guessed() -> None:
    with leveret.Broker() as one, leveret.Broker() as other:
        assert one.password != other.password
        assert logs_in(one.amqp_url, one.username, one.password)
        assert not logs_in(one.amqp_url, "guest", "guest")
        with RawClient.open(one.amqp_url) as client:  # the address carries the login
            client.is_alive()
        assert one.password not in repr(one.settings)
        assert one.password not in repr(one)


def test_settings_of_the_application_stay_as_they_are() -> None:
    settings = leveret.Settings(amqp_port=0, http_port=None, stomp_port=None)
    with leveret.Broker(settings) as broker:
        assert {name: getattr(broker.settings, name) for name in settings.given} == {
            name: getattr(settings, name) for name in settings.given
        }
        assert "guest:guest@" in broker.amqp_url
