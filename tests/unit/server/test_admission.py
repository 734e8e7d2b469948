from __future__ import annotations

import pytest

from leveret.server.admission import RESERVE, Admission, Admitted, source_of

ATTACKER, HONEST, LOCAL = "192.0.2.66", "192.0.2.1", "127.0.0.1"


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_a_source_is_an_ipv4_address_or_an_ipv6_network(address: str, source: str) -> None:
    assert source_of(address) == source


def entered(admission: Admission, address: str, number: int) -> list[Admitted]:
    made = [admission.enter(address, lambda: None) for _ in range(number)]
    return [each for each in made if each is not None]


def logged_in(admission: Admission, number: int) -> list[Admitted]:
    made = []
    for _ in range(number):
        made += entered(admission, HONEST, 1)
        made[-1].authenticated()
    return made


def is_open(made: list[Admitted]) -> list[bool]:
    return [each.is_open for each in made]


@pytest.mark.parametrize("sources", [1, 3, 30, 200])
def test_a_source_that_holds_few_always_gets_in(sources: int) -> None:
    """However many sources hold however many places."""
    admission = Admission(1 << 30, most_sockets=80)
    for _ in range(3):
        for number in range(sources):
            entered(admission, f"198.51.100.{number}", 40)
    honest = entered(admission, HONEST, 1)
    assert (is_open(honest), admission.unauthenticated.taken, admission.refused) == ([True], 40, 0)


def test_the_oldest_of_the_source_that_holds_the_most_makes_room() -> None:
    admission = Admission(1 << 30, most_sockets=20)
    attacker, honest = entered(admission, ATTACKER, 8), entered(admission, HONEST, 2)
    new = entered(admission, HONEST, 2)
    assert is_open(attacker) == [False] * 2 + [True] * 6
    assert all(is_open(honest + new))
    again = entered(admission, ATTACKER, 1)
    assert is_open(attacker + again) == [False] * 3 + [True] * 6
    assert all(is_open(honest + new))


def test_connections_that_logged_in_are_not_closed_for_others() -> None:
    admission = Admission(1 << 30, most_sockets=80)
    made = logged_in(admission, 30)
    made[0].authenticated()  # again
    assert (admission.sockets, admission.unauthenticated.taken) == (30, 0)
    entered(admission, ATTACKER, 100)
    assert all(is_open(made))


def test_loopback_has_a_reserve_of_descriptors() -> None:
    admission = Admission(1 << 30, most_sockets=10)
    logged_in(admission, 10)
    assert admission.enter(HONEST, lambda: None) is None
    local = [admission.enter(LOCAL, lambda: None) for _ in range(RESERVE)]
    assert None not in local
    assert admission.refused == 1


def test_idle_http_connections_make_room_when_descriptors_run_out_the_longest_idle_first() -> None:
    admission, closed = Admission(1 << 30, most_sockets=12), list[str]()
    for name in "abc":
        idle = admission.enter(ATTACKER, lambda name=name: closed.append(name))  # type: ignore[misc]
        assert idle is not None
        idle.authenticated()
        idle.set_idle(True)
        if name == "a":
            idle.set_idle(False)  # it got a request
            first = idle
    logged_in(admission, 9)
    assert admission.enter(HONEST, lambda: None) is not None
    assert (closed, first.is_open, admission.sockets) == (["b"], True, 12)


def test_unauthenticated_connections_make_room_when_descriptors_run_out() -> None:
    admission = Admission(1 << 30, most_sockets=10)
    attacker = entered(admission, ATTACKER, 3)
    logged_in(admission, 7)
    assert is_open(entered(admission, HONEST, 1)) == [True]
    assert (is_open(attacker), admission.sockets) == ([False, True, True], 10)


def test_leaving_gives_everything_back_once() -> None:
    admission = Admission(1 << 30, most_sockets=80)
    made = entered(admission, HONEST, 3)
    made[0].set_idle(True)
    tunnel = admission.enter_tunnel(HONEST, lambda: None)
    assert (admission.sockets, admission.unauthenticated.taken, admission.tunnels.taken) == (3, 3, 1)
    for each in [*made, tunnel, *made, tunnel]:
        each.leave()
    assert (admission.sockets, admission.unauthenticated.taken, admission.tunnels.taken) == (0, 0, 0)
    assert (admission.idle, admission.unauthenticated._by_source, admission.unauthenticated._by_count) == ({}, {}, {})
    assert not admission.unauthenticated.close_one(HONEST)


def test_a_low_watermark_lowers_the_number_of_unauthenticated_connections() -> None:
    assert Admission(16 << 20, most_sockets=10_000).places == 64
