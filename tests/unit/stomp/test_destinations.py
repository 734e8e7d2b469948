"""Destinations, there and back, as RabbitMQ's plugin reads them."""

from __future__ import annotations

import pytest

from leveret.stomp.destinations import Destination, _parsed, parse, shown
from leveret.stomp.errors import StompError


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("/queue/a", Destination("queue", "a", "", "a")),
        ("plain", Destination("queue", "plain", "", "plain")),
        ("/queue/a%2Fb", Destination("queue", "a/b", "", "a/b")),
        ("/amq/queue/a", Destination("amqqueue", "a", "", "a")),
        ("/topic/a.*.#", Destination("topic", "", "amq.topic", "a.*.#")),
        ("/exchange/x", Destination("exchange", "", "x", "")),
        ("/exchange/x/k%2Fl", Destination("exchange", "", "x", "k/l")),
        ("/temp-queue/t", Destination("temp_queue", "t", "", "t")),
        ("/reply-queue/a/b", Destination("reply_queue", "a/b", "", "a/b")),
    ],
)
def test_a_destination_is_read(text: str, meant: Destination) -> None:
    assert parse(text) == meant


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *[(text, "Invalid destination") for text in ("/queue/", "/queue/a/b", "/queue", "/topic/", "/exchange/")],
        *[(text, "Invalid destination") for text in ("/exchange/x/y/z", "/amq/queue/", "/reply-queue/", "")],
        *[(text, "Unknown destination") for text in ("/nowhere/a", "a/b", "/", "/amq/topic/a")],
    ],
)
def test_a_destination_that_leads_nowhere_is_refused(text: str, message: str) -> None:
    with pytest.raises(StompError) as refused:
        parse(text)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("exchange", "key", "text"),
    [
        ("", "a", "/queue/a"),
        ("", "a/b%", "/queue/a%2Fb%25"),
        ("amq.topic", "a.b", "/topic/a.b"),
        ("x", "k", "/exchange/x/k"),
        ("x", "", "/exchange/x"),
    ],
)
def test_where_a_message_went_is_shown_as_a_destination(exchange: str, key: str, text: str) -> None:
    assert shown(exchange, key) == text
    if key:
        assert (parse(text).exchange, parse(text).key) == (exchange, key)


def test_what_is_too_long_for_any_destination_is_not_remembered() -> None:
    """What is read is remembered for the whole process: strangers must not fill it with 64 KiB each."""
    before = _parsed.cache_info()
    with pytest.raises(StompError):
        parse("/queue/" + "x" * 60_000)
    assert _parsed.cache_info() == before
