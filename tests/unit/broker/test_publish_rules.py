"""What the properties of a message mean to the broker."""

from __future__ import annotations

import pytest

from leveret.broker.publish_rules import MAX_EXPIRATION, further_keys, traits_of
from leveret.errors import PreconditionFailed
from leveret.message import NEVER
from leveret.wire.properties import Properties


@pytest.mark.feature("S4-11")
def test_a_message_without_properties_is_transient_and_lives_for_ever() -> None:
    traits = traits_of(Properties(), 5.0)
    assert (traits.persistent, traits.deadline, traits.priority) == (False, NEVER, 0)


def test_mode_priority_and_expiration_are_read() -> None:
    traits = traits_of(Properties(delivery_mode=2, priority=7, expiration="1500"), 5.0)
    assert (traits.persistent, traits.deadline, traits.priority) == (True, 6.5, 7)
    assert traits_of(Properties(expiration=str(MAX_EXPIRATION)), 0.0).deadline < NEVER


@pytest.mark.parametrize("text", ["", "-1", "1.5", "soon", "٣", "1 ", "99999999999999999", str(MAX_EXPIRATION + 1)])
@pytest.mark.feature("S4-81")
def test_an_expiration_that_is_no_number_of_milliseconds_is_refused(text: str) -> None:
    with pytest.raises(PreconditionFailed, match="must be a whole number of milliseconds") as refusal:
        traits_of(Properties(expiration=text), 0.0)
    assert f"'{text}'" in refusal.value.text
    assert refusal.value.method == (60, 40)


def test_cc_and_bcc_name_further_keys() -> None:
    assert further_keys({}) == []
    assert further_keys({"CC": ["a", "b"], "BCC": ["c", 5], "cc": ["no"]}) == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["CC", "BCC"])
def test_further_keys_must_be_an_array(name: str) -> None:
    with pytest.raises(PreconditionFailed, match=f"header '{name}' must be an array of routing keys"):
        further_keys({name: "a"})
