"""Requests that a proxy may delimit differently than the broker, each with a second request behind it."""

from __future__ import annotations

from tests.support.http_api import basic

HOST = b"Host: localhost\r\n"
LOGIN = b"Authorization: " + basic("guest", "guest").encode() + b"\r\n"
WHOAMI = b"GET /api/whoami HTTP/1.1\r\n" + HOST + LOGIN
SMUGGLED = WHOAMI + b"\r\n"
POST = b"POST /api/login HTTP/1.1\r\n" + HOST
CHUNKED = b"Transfer-Encoding: chunked\r\n"
EMPTY = b"\r\n0\r\n\r\n"
LARGEST_HEAD = 64 << 10

AMBIGUOUS = {
    "length and chunks": POST + b"Content-Length: 6\r\n" + CHUNKED + EMPTY + SMUGGLED,
    "chunks and length": POST + CHUNKED + b"content-length: 5\r\n" + EMPTY + SMUGGLED,
    "length and chunks, other case": POST + b"CONTENT-LENGTH: 6\r\ntRANSFER-eNCODING: chunked\r\n" + EMPTY + SMUGGLED,
    "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + CHUNKED + b"Connection: keep-alive\r\n" + EMPTY + SMUGGLED,
    "two lengths": POST + b"Content-Length: 0\r\nContent-Length: 3\r\n\r\nabc" + SMUGGLED,
    "a list of lengths": POST + b"Content-Length: 0, 3\r\n\r\nabc" + SMUGGLED,
    "a signed length": POST + b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "a space before the colon": POST + b"Content-Length : 3\r\n\r\nabc" + SMUGGLED,
    "bare LF after the request line": WHOAMI.replace(b"\r\n", b"\n", 1) + b"\r\n" + SMUGGLED,
    "bare LF between fields": WHOAMI + b"X: y\nContent-Length: 3\r\n\r\nabc" + SMUGGLED,
    "bare LF at the end": WHOAMI + b"X: y\n\n" + SMUGGLED,
    "bare LF as the blank line": WHOAMI + b"\n" + SMUGGLED,
    "bare LF everywhere": (WHOAMI + b"\r\n").replace(b"\r\n", b"\n") + SMUGGLED,
    "bare CR in a value": WHOAMI + b"X: y\rContent-Length: 3\r\n\r\nabc" + SMUGGLED,
    "a folded line": WHOAMI + b"X: y\r\n Content-Length: 3\r\n\r\n" + SMUGGLED,
    "a line folded by a tab": WHOAMI + b"X: y\r\n\tz\r\n\r\n" + SMUGGLED,
    "an empty line first": b"\r\n" + SMUGGLED,
    "two hosts": WHOAMI + HOST + b"\r\n" + SMUGGLED,
    "no host": SMUGGLED.replace(HOST, b"") + SMUGGLED,
    "an unknown coding": POST + b"Transfer-Encoding: xchunked\r\n" + EMPTY + SMUGGLED,
    "chunked twice": POST + CHUNKED + CHUNKED + EMPTY + SMUGGLED,
    "a second request that is ambiguous": SMUGGLED + POST + b"Content-Length: 6\r\n" + CHUNKED + EMPTY + SMUGGLED,
    "a head of 100 kB": WHOAMI + b"X: " + b"x" * 100_000 + b"\r\n\r\n" + SMUGGLED,
    "a head one byte too large": WHOAMI + b"X: " + b"x" * (LARGEST_HEAD - len(WHOAMI) - 6) + b"\r\n\r\n" + SMUGGLED,
}  # fmt: skip
CLEAR = {
    "a head of 64 KiB": WHOAMI + b"X: " + b"x" * (LARGEST_HEAD - len(WHOAMI) - 7) + b"\r\n\r\n",
    "a body that looks like a head": WHOAMI + b"Content-Length: 24\r\n\r\nX: y\nContent-Length: 3\n\n",
    "a body in chunks": WHOAMI + CHUNKED + b"\r\n3\r\na\nb\r\n0\r\n\r\n",
    "a value with blanks": WHOAMI + b"X: \t a b \t \r\n\r\n",
}
