from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.auth.mechanisms import Credentials, certificate_name, offered, parse
from leveret.errors import CommandInvalid, SyntaxFault


def table(**entries: bytes) -> bytes:
    parts = []
    for name, value in entries.items():
        parts.append(bytes([len(name)]) + name.encode() + b"S" + len(value).to_bytes(4, "big") + value)
    return b"".join(parts)


def test_external_is_offered_only_to_peers_with_a_certificate() -> None:
    assert offered(has_client_certificate=False) == b"PLAIN AMQPLAIN"
    assert offered(has_client_certificate=True) == b"PLAIN AMQPLAIN EXTERNAL"


@pytest.mark.parametrize("response", [b"\0ann\0s\xc3\xa9cret", b"whoever\0ann\0s\xc3\xa9cret"])
def test_plain_gives_name_and_password(response: bytes) -> None:
    assert parse("PLAIN", response, None) == Credentials("ann", "sécret")


@pytest.mark.parametrize("response", [b"", b"ann", b"\0ann", b"\0ann\0p\0more", b"\0\xff\0p", b"\0ann\0\xff"])
def test_a_malformed_plain_response_is_a_syntax_error(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        parse("PLAIN", response, None)


def test_amqplain_gives_name_and_password() -> None:
    response = table(LOGIN=b"ann", PASSWORD=b"secret")
    assert parse("AMQPLAIN", response, None) == Credentials("ann", "secret")


@pytest.mark.parametrize(
    "response",
    [
        b"",
        b"\x05LOGIN",
        table(LOGIN=b"ann"),
        table(LOGIN=b"ann", PASSWORD=b"\xff"),
        table(LOGIN=b"a", PASSWORD=b"b") + b"x",
    ],
)
def test_a_malformed_amqplain_response_is_a_syntax_error(response: bytes) -> None:
    with pytest.raises(SyntaxFault):
        parse("AMQPLAIN", response, None)


def test_amqplain_with_a_number_for_a_name_is_a_syntax_error() -> None:
    with pytest.raises(SyntaxFault):
        parse("AMQPLAIN", b"\x05LOGINI\0\0\0\x01" + table(PASSWORD=b"b"), None)


def test_no_error_repeats_the_password() -> None:
    with pytest.raises(SyntaxFault) as caught:
        parse("PLAIN", b"\0ann\0hunter2\0", None)
    assert "hunter2" not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("mechanism", ["", "plain", "CRAM-MD5", "EXTERNAL"])
def test_a_mechanism_that_was_not_offered_is_an_invalid_command(mechanism: str) -> None:
    with pytest.raises(CommandInvalid):
        parse(mechanism, b"", None)


def test_external_takes_the_common_name_of_the_certificate() -> None:
    certificate = {"subject": ((("countryName", "DE"),), (("commonName", "ann"),))}
    assert parse("EXTERNAL", b"", certificate) == Credentials("ann", None)


def test_external_without_a_common_name_takes_the_whole_subject() -> None:
    certificate = {"subject": ((("countryName", "DE"),), (("organizationName", "Hares, Inc."),), (("x", " #1 "),))}
    assert certificate_name(certificate) == "x=\\ #1\\ ,O=Hares\\, Inc.,C=DE"


def test_a_certificate_that_was_not_verified_or_names_nobody_logs_nobody_in() -> None:
    with pytest.raises(CommandInvalid):
        parse("EXTERNAL", b"", {})
    with pytest.raises(SyntaxFault):
        parse("EXTERNAL", b"", {"subject": ()})


def test_credentials_do_not_show_the_password() -> None:
    assert "secret" not in repr(Credentials("ann", "secret"))


@given(st.sampled_from(["PLAIN", "AMQPLAIN", "EXTERNAL", "X"]), st.binary(max_size=64))
def test_any_bytes_give_credentials_or_an_amqp_error(mechanism: str, response: bytes) -> None:
    with suppress(SyntaxFault, CommandInvalid):
        assert isinstance(parse(mechanism, response, None), Credentials)
