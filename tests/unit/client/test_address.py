"""S4-63: a broker's address as one URI: every part, its usual value, and errors that name the part and no password."""

from __future__ import annotations

import traceback

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leveret.client.address import Address, parsed
from leveret.client.errors import AddressError


@pytest.mark.feature("S4-63")
def test_a_uri_names_host_port_vhost_user_and_password() -> None:
    address = parsed("amqp://ann:s%2Fcret@example.org:5673/the%2Fvhost?heartbeat=5&connection_timeout=3&name=me")
    assert (address.host, address.port, address.vhost) == ("example.org", 5673, "the/vhost")
    assert (address.user, address.password) == ("ann", "s/cret")
    assert (address.heartbeat, address.connection_timeout, address.name) == (5, 3, "me")


@pytest.mark.parametrize(
    ("uri", "transport", "is_tls", "port"),
    [
        ("amqp://h", "tcp", False, 5672),
        ("tcp://h", "tcp", False, 5672),
        ("nio://h", "tcp", False, 5672),
        ("amqps://h", "tcp", True, 5671),
        ("tls://h", "tcp", True, 5671),
        ("ws://h", "ws", False, 15672),
        ("wss://h", "ws", True, 15671),
        ("http://h", "http", False, 15672),
        ("https://h", "http", True, 15671),
    ],
)
@pytest.mark.feature("S3-03")
def test_a_scheme_stands_for_a_transport_and_its_port(uri: str, transport: str, is_tls: bool, port: int) -> None:
    address = parsed(uri)
    assert (address.transport, address.is_tls, address.port) == (transport, is_tls, port)


@pytest.mark.parametrize(
    ("uri", "vhost"),
    [("amqp://h", "/"), ("amqp://h/", "/"), ("amqp://h/%2F", "/"), ("amqp://h/v", "v"), ("amqp://h/%2fv", "/v")],
)
def test_the_vhost_is_the_path_without_its_slash(uri: str, vhost: str) -> None:
    assert parsed(uri).vhost == vhost


def test_what_is_missing_is_as_with_other_clients() -> None:
    assert parsed("amqp://") == Address()
    assert (Address().host, Address().user, Address().password, Address().vhost) == ("localhost", "guest", "guest", "/")


def test_ipv6_stands_in_brackets() -> None:
    address = parsed("amqp://[::1]:5673")
    assert (address.host, address.port) == ("::1", 5673)
    assert address.shown == "amqp://guest@[::1]:5673/%2F"


def test_the_zone_of_an_ipv6_address_is_escaped_as_uris_ask() -> None:
    assert parsed("amqp://[fe80::1%25eth0]").host == "fe80::1%eth0"
    assert parsed("amqp://[fe80::1%25eth0]").shown == "amqp://guest@[fe80::1%25eth0]:5672/%2F"


def test_who_comes_with_a_certificate_needs_no_user() -> None:
    assert parsed("amqps://h?certfile=me.pem&keyfile=me.key&verify=verify_none").user == ""
    assert parsed("amqps://ann@h?certfile=me.pem").user == "ann"
    assert not parsed("amqps://h?verify=verify_none").verify


def test_named_fields_stand_above_the_uri() -> None:
    assert parsed("amqp://h?heartbeat=5", heartbeat=0, user="ann").heartbeat == 0


WRONG = [
    ("ampq://u:hidden@h", "must start with one of amqp://"),
    ("amqp://u:hidden@h:port", "is not a valid address: its port must be a number"),
    ("amqp://u:hidden@h:99999", "its port must be a number"),
    ("amqp://u:5?hidden=hidden@h", "has an @ after the host; .* %3F for ?"),
    ("amqp://u:hidden@h/a/b", "write the / of a vhost as %2F"),
    ("amqp://u:hidden@h?heartbeat=often", "'heartbeat' .* must be a whole number from 0 to 65535: 'often'"),
    ("amqp://u:hidden@h?frame_max=1", "'frame_max' .* from 4096"),
    ("amqp://u:hidden@h?channel_max=70000", "'channel_max' .* to 65535"),
    ("amqp://u:hidden@h?connection_timeout=0", "'connection_timeout' .* from 1"),
    ("amqps://u:hidden@h?verify=maybe", "'verify' .* must be verify_peer or verify_none: 'maybe'"),
    ("amqp://u:hidden@h?hartbeat=5", "unknown option 'hartbeat': known are heartbeat"),
    ("amqp://u:hid@den@h?hartbeat=5", "unknown option 'hartbeat'"),
    ("u:hidden@h", "must start with one of amqp://"),
    ("hidden@h", "must start with one of amqp://"),
    ("hid://den@h", "must start with one of amqp://"),
    ("amqp://u:hidden", "its port must be a number"),
    ("amqp://h?password=hidden", "unknown option 'password'"),
    ("amqp://h?heartbeat=", "'heartbeat' .* must be a whole number"),
]


@pytest.mark.parametrize(("uri", "text"), WRONG)
def test_an_error_names_the_part_and_what_is_expected(uri: str, text: str) -> None:
    with pytest.raises(AddressError, match=text) as caught:
        parsed(uri)
    assert "hid" not in str(caught.value)
    assert "den" not in str(caught.value)


def test_special_characters_are_escaped_in_every_part() -> None:
    address = parsed("amqp://a%40b:%2F%3F%23%40@h/v%40w?name=me%40work")
    assert (address.user, address.password, address.vhost, address.name) == ("a@b", "/?#@", "v@w", "me@work")


SECRET = st.text("abcXYZ@:/?#%&=[] é", min_size=1).map(lambda text: f"QQ{text}QQ")


@example("QQ://QQ", "u:{}@h")
@given(
    SECRET,
    st.sampled_from(
        [
            "amqp://u:{}@h",
            "u:{}@h",
            "{}@h",
            "amqp://u:5{}@h",
            "amqp://u:{}@h/a/b",
            "amqp://u:{}@h:x",
            "xyz://u:{}@h?a=b",
        ]
    ),
)
def test_no_password_is_ever_shown(secret: str, form: str) -> None:
    """Also where it was not written as a URI asks for, and stands in the wrong part."""
    try:
        address = parsed(form.format(secret))
        shown = repr(address) + address.shown
    except AddressError as problem:
        shown = "".join(traceback.format_exception_only(problem)) + str(problem.__cause__)
    assert "QQ" not in shown.replace("QQ@h", "")
