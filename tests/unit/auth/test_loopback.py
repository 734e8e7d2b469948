from __future__ import annotations

import pytest

from leveret.auth.loopback import is_loopback


@pytest.mark.parametrize("address", ["127.0.0.1", "127.255.1.2", "::1", "::ffff:127.0.0.1", "::1%lo", ""])
def test_this_machine_is_loopback(address: str) -> None:
    assert is_loopback(address)


@pytest.mark.parametrize(
    "address",
    ["10.0.0.1", "0.0.0.0", "::", "::ffff:10.0.0.1", "fe80::1%eth0", "localhost", "127.0.0.1.evil", "128.0.0.1"],
)
def test_everything_else_is_not(address: str) -> None:
    assert not is_loopback(address)
