"""SASL: parses the response in ``connection.start-ok`` into a name and a password."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from leveret.errors import AmqpError, CommandInvalid, SyntaxFault
from leveret.wire.fields import decode_table

SHORT_NAMES = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "emailAddress": "EMAILADDRESS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "userId": "UID",
}


@dataclass(slots=True, frozen=True)
class Credentials:
    """User name and password of a login. Without a password, the name is from a verified client certificate."""

    name: str
    password: str | None = field(repr=False)
    remote_name: str = ""
    """The name of a user with loopback-only login, if the peer is remote; ``name`` is empty then."""
    mechanism: str = field(default="", compare=False)  # for the log

    def refused_to_remote_peers(self) -> Credentials:
        """The same login as an unknown user, so that neither the reply nor its time depends on the password."""
        return replace(self, name="", remote_name=self.name)

    def by(self, mechanism: str) -> Credentials:
        return replace(self, mechanism=mechanism)


def offered(has_client_certificate: bool) -> bytes:
    """The mechanisms named in ``connection.start``."""
    return b"PLAIN AMQPLAIN EXTERNAL" if has_client_certificate else b"PLAIN AMQPLAIN"


def parse(mechanism: str, response: bytes, peer_certificate: Mapping[str, object] | None = None) -> Credentials:
    """``peer_certificate``: the result of ``ssl.SSLSocket.getpeercert()``, empty or None if none was verified."""
    if mechanism == "PLAIN":
        return _plain(response)
    if mechanism == "AMQPLAIN":
        return _amqplain(response)
    if mechanism == "EXTERNAL" and peer_certificate:
        return Credentials(certificate_name(peer_certificate), None)
    raise CommandInvalid(f"unknown authentication mechanism {mechanism[:64]!r}")


def certificate_name(certificate: Mapping[str, object]) -> str:
    """The subject's common name (several are joined by commas), or else the whole subject in the format of RFC 4514."""
    subject = list(_subject(certificate))
    common = [value for attribute, value in subject if attribute == "commonName"]
    if common:
        return ",".join(common)
    if subject:
        return ",".join(f"{SHORT_NAMES.get(name, name)}={_escaped(value)}" for name, value in reversed(subject))
    raise SyntaxFault("the client certificate has no subject to log in with")


def _plain(response: bytes) -> Credentials:
    """``authzid NUL authcid NUL passwd`` (RFC 4616). The first is ignored, as in RabbitMQ."""
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise SyntaxFault("malformed PLAIN response")  # without the bytes: they contain a password
    return Credentials(_text(parts[1], "PLAIN"), _text(parts[2], "PLAIN"))


def _amqplain(response: bytes) -> Credentials:
    """A field table with LOGIN and PASSWORD, without the length prefix that tables have elsewhere."""
    framed = len(response).to_bytes(4, "big") + response
    try:
        table, end = decode_table(framed, 0, len(framed))
    except AmqpError:
        raise SyntaxFault("malformed AMQPLAIN response") from None
    if end != len(framed) or "LOGIN" not in table or "PASSWORD" not in table:
        raise SyntaxFault("AMQPLAIN response without LOGIN and PASSWORD")
    return Credentials(_text(table["LOGIN"], "AMQPLAIN"), _text(table["PASSWORD"], "AMQPLAIN"))


def _text(value: object, mechanism: str) -> str:
    if isinstance(value, bytes | bytearray | memoryview):
        try:
            return str(value, "utf-8")
        except UnicodeDecodeError:
            raise SyntaxFault(f"{mechanism} response is not UTF-8") from None
    if isinstance(value, str):
        return value
    raise SyntaxFault(f"{mechanism} response contains a value that is not text")


def _subject(certificate: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """The flattened subject: ``getpeercert`` returns a tuple of relative names, each a tuple of (attribute, value)."""
    subject = certificate.get("subject", ())
    for relative in subject if isinstance(subject, tuple | list) else ():
        for attribute, value in relative:
            yield str(attribute), str(value)


def _escaped(value: str) -> str:
    quoted = "".join("\\" + char if char in ',+"\\<>;=' else char for char in value)
    if quoted[:1] in ("#", " "):
        quoted = "\\" + quoted
    if len(quoted) > 1 and quoted.endswith(" "):
        quoted = quoted[:-1] + "\\ "
    return quoted
