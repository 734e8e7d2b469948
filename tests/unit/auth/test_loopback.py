from __future__ import annotations

import pytest

from leveret.auth.loopback import http_peer, is_loopback, proxied


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1", "::1%lo"])
def test_this_machine_is_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "localhost", "127.0.0.1.evil", "128.0.0.1", ""],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_loopback(address)


@pytest.mark.parametrize(
    "host",
    ["localhost", "localhost:15672", "LOCALHOST", "a.localhost", "127.0.0.1:1", "[::1]:15672", "0.0.0.0:1", "[::]"],
)
def test_a_client_that_names_this_machine_is_local(host: str) -> None:
    assert is_loopback(http_peer("127.0.0.1", host))


@pytest.mark.parametrize(
    "host",
    [
        "",
        ":15672",
        "evil.example",
        "evil.example:15672",
        "localhost.evil.example",
        "127.0.0.1.evil",
        "[",
        "x",
        "192.168.1.9",
        "[fd::1]",
    ],
)
def test_a_client_that_names_another_host_is_not(host: str) -> None:
    """A page can have its name lead to this machine; then its requests come from here. And who means this machine by
    its address in the network has that address itself: from a loopback address it is a proxy who speaks."""
    assert not is_loopback(http_peer("127.0.0.1", host))


def test_an_address_from_elsewhere_stays_as_it_is() -> None:
    assert http_peer("10.0.0.1", "evil.example") == "10.0.0.1"


@pytest.mark.parametrize("name", ["X-Forwarded-For", "x-forwarded-proto", "Forwarded", "X-Real-IP", "Via"])
def test_a_proxy_that_tells_of_itself_is_not_taken_for_its_client(name: str) -> None:
    """Many pass on a Host of their own, by which they are not known."""
    assert not is_loopback(http_peer("127.0.0.1", "127.0.0.1:15672", ["host", name]))
    assert is_loopback(http_peer("127.0.0.1", "127.0.0.1:15672", ["host", "accept", "x-requested-with"]))


def test_http_1_0_is_a_proxy() -> None:
    """nginx speaks it unless told otherwise; local clients do not."""
    assert not is_loopback(http_peer("127.0.0.1", "127.0.0.1:15672", version="1.0"))


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_client_behind_a_proxy_is_never_local(address: str) -> None:
    assert not is_loopback(proxied(address))
    assert proxied(address).startswith(address)
    assert proxied("10.0.0.1") == "10.0.0.1"
