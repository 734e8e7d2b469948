"""The value that travels: content, address, traits (S4-09)."""

from __future__ import annotations

import pytest

from leveret.message import NEVER, PERSISTENT, TRANSIENT, Address, Traits
from leveret.wire.frames import decode_method
from leveret.wire.methods import BasicDeliver


def test_plain_messages_share_their_traits() -> None:
    assert (TRANSIENT.persistent, TRANSIENT.deadline, TRANSIENT.priority) == (False, NEVER, 0)
    assert PERSISTENT.persistent


def test_a_death_can_only_be_brought_forward() -> None:
    traits = Traits(persistent=True, deadline=50.0, priority=3)
    sooner, later = traits.expiring(10.0), traits.expiring(90.0)
    assert (sooner.deadline, later.deadline) == (10.0, 50.0)
    assert (sooner.persistent, sooner.priority) == (True, 3)
    assert traits.deadline == 50.0


@pytest.mark.feature("S4-09")
def test_an_address_holds_the_end_of_every_deliver_frame() -> None:
    address = Address("exchänge", "key", 7, 4096)
    head = b"\x00\x3c\x00\x3c" + b"\x03tag" + (5).to_bytes(8, "big")
    assert decode_method(head + address.tail[:-1]) == BasicDeliver("tag", 5, False, "exchänge", "key")
    assert decode_method(head + address.tail_again[:-1]) == BasicDeliver("tag", 5, True, "exchänge", "key")
    assert (address.channel, address.frame_max) == (7, 4096)
