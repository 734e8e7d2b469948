from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from leveret.errors import FrameError
from leveret.wire import methods
from leveret.wire.methods import METHODS, BasicAck, BasicNack, Method, QueueDeclare
from tests.support.method_arguments import arguments_of

ROOT = Path(__file__).resolve().parents[3]
EVERY = sorted(METHODS.values(), key=lambda method: method.id)


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.NAME)
def test_a_method_of_defaults_comes_back(method: type[Method]) -> None:
    payload = method().encode()
    assert payload[:4] == method.CLASS_ID.to_bytes(2, "big") + method.METHOD_ID.to_bytes(2, "big")
    assert method.decode(payload, 4, len(payload)) == method()


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.NAME)
def test_a_method_cut_short_or_with_more_behind_it_is_a_frame_error(method: type[Method]) -> None:
    payload = method().encode()
    for end in range(4, len(payload)):
        with pytest.raises(FrameError):
            method.decode(payload, 4, end)
    with pytest.raises(FrameError, match="too many"):
        method.decode(payload + b"\x00", 4, len(payload) + 1)


@pytest.mark.parametrize("method", EVERY, ids=lambda method: method.NAME)
def test_each_bit_stands_for_itself(method: type[Method]) -> None:
    bits = [name for name, kind in arguments_of(method).items() if kind == "bool"]
    for name in bits:
        one = method(**{other: other == name for other in bits})
        payload = one.encode()
        assert method.decode(payload, 4, len(payload)) == one


def test_methods_are_the_same_by_their_arguments_and_show_them() -> None:
    assert BasicAck(7, True) == BasicAck(delivery_tag=7, multiple=True) != BasicAck(7)
    assert BasicAck(7) != BasicNack(7)
    assert repr(BasicAck(7)) == "BasicAck(delivery_tag=7, multiple=False)"
    with pytest.raises(TypeError, match="unhashable"):
        hash(BasicAck(7))


def test_a_table_that_is_not_given_is_nobody_elses() -> None:
    QueueDeclare().arguments["x-expires"] = 1
    assert QueueDeclare().arguments == {}


def test_names_and_ids_are_consistent() -> None:
    for ids, method in METHODS.items():
        assert ids == method.id == (method.CLASS_ID, method.METHOD_ID)
        words = method.NAME.replace(".", "-").split("-")
        assert method.__name__ == "".join(word.capitalize() for word in words)
    assert len(METHODS) == 64


def test_every_synchronous_method_has_a_reply() -> None:
    names = {method.NAME for method in EVERY}
    for method in EVERY:
        assert (f"{method.NAME}-ok" in names) == method.SYNC, method.NAME


def test_four_methods_carry_content() -> None:
    carriers = {method.NAME for method in EVERY if method.HAS_CONTENT}
    assert carriers == {"basic.publish", "basic.return", "basic.deliver", "basic.get-ok"}


def test_reserved_arguments_may_hold_anything() -> None:
    payload = b"\x00\x14\x00\x0a" + b"\x03abc"
    assert methods.ChannelOpen.decode(payload, 4, len(payload)) == methods.ChannelOpen()
    payload = b"\x00\x3c\x00\x46" + b"\xff\xff" + b"\x01q" + b"\x01"
    assert methods.BasicGet.decode(payload, 4, len(payload)) == methods.BasicGet(queue="q", no_ack=True)


def test_two_methods_do_not_share_their_tables() -> None:
    first = methods.QueueDeclare()
    first.arguments["x-max-length"] = 1
    assert methods.QueueDeclare().arguments == {}


def test_methods_have_no_room_for_unknown_attributes() -> None:
    with pytest.raises(AttributeError):
        methods.BasicAck().surprise = 1  # type: ignore[attr-defined]


def test_the_base_is_only_a_contract() -> None:
    with pytest.raises(NotImplementedError):
        Method().encode()
    with pytest.raises(NotImplementedError):
        Method.decode(b"", 0, 0)


def test_the_generated_file_is_up_to_date() -> None:
    command = [sys.executable, str(ROOT / "tools" / "generate_methods.py"), "--check"]
    assert subprocess.run(command, check=False).returncode == 0
