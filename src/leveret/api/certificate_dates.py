"""The expiry date of a certificate, which Python's ssl module returns for peers only.

A certificate is a tree of DER values, each with a tag, a length and its content:

    Certificate { to be signed { [0] version, serial, algorithm, issuer, validity { not before, not after }, ...
"""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

BEGIN, END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
VERSION_TAG = 0xA0
UTC_TIME = 0x17  # years of two digits, 1950 to 2049
BEFORE_VALIDITY = 3  # serial, algorithm, issuer
FORMATS = {UTC_TIME: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}


def certificate_end(pem: str) -> float:
    """Expiry of the first certificate in the file, the server's, in seconds since 1970. ValueError if there is none."""
    start, stop = pem.find(BEGIN), pem.find(END)
    if start < 0 or stop < start:
        raise ValueError("the file contains no certificate in PEM format")
    try:
        return _end_of(ssl.PEM_cert_to_DER_cert(pem[start : stop + len(END)]))
    except (IndexError, KeyError) as problem:
        raise ValueError("the certificate in the file is incomplete") from problem


def _end_of(der: bytes) -> float:
    _, signed, _ = _value(der, 0)
    _, fields, _ = _value(signed, 0)
    tag, _, after = _value(fields, 0)
    at = after if tag == VERSION_TAG else 0
    for _ in range(BEFORE_VALIDITY):
        at = _value(fields, at)[2]
    validity = _value(fields, at)[1]
    kind, text, _ = _value(validity, _value(validity, 0)[2])
    moment = datetime.strptime(text.decode("ascii"), FORMATS[kind]).replace(tzinfo=UTC)
    if kind == UTC_TIME and moment.year >= 2050:
        moment = moment.replace(year=moment.year - 100)
    return moment.timestamp()


def _value(der: bytes, at: int) -> tuple[int, bytes, int]:
    """The tag and the content of the value, and the position of the next one."""
    tag, size = der[at], der[at + 1]
    at += 2
    if size & 0x80:  # then the low bits are the length of the length
        digits = size & 0x7F
        size = int.from_bytes(der[at : at + digits], "big")
        at += digits
    if at + size > len(der):
        raise IndexError(at)
    return tag, der[at : at + size], at + size
