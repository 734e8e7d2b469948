"""Options are read once; every refusal names the option, the value and the remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from leveret.spark import LeveretDataSource
from leveret.spark.credentials import Secret
from leveret.spark.errors import OptionError
from leveret.spark.options import (
    EARLIEST,
    LATEST,
    Endpoint,
    Position,
    Selection,
    connection_options,
    refuse_options_of_batches,
    refuse_options_of_streams,
    sink_options,
    source_options,
)
from leveret.spark.schema import SCHEMA, columns_of


@pytest.fixture(autouse=True)
def no_password_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LEVERET_PASSWORD", raising=False)


def test_defaults_reach_the_broker_of_this_machine() -> None:
    access = connection_options({})
    assert access.endpoints == (Endpoint("http", "127.0.0.1", 15672),)
    assert (access.vhost, access.username, access.secret) == ("/", "guest", Secret("guest"))


def test_names_are_known_in_any_case() -> None:
    options = source_options({"QUEUE": "q", "maxoffsetspertrigger": "7", "FailOnDataLoss": "FALSE"})
    assert (options.selection, options.max_rows, options.fail_on_data_loss) == (Selection("queue", "q"), 7, False)


def test_endpoints_are_a_list() -> None:
    access = connection_options({"endpoint": "http://localhost:1, https://[::1], http://127.0.0.1"})
    assert [str(endpoint) for endpoint in access.endpoints] == [
        "http://localhost:1",
        "https://[::1]:15671",
        "http://127.0.0.1:15672",
    ]


@pytest.mark.parametrize("value", ["", "127.0.0.1:15672", "amqp://h", "http://", "http://h/path", "http://h:x"])
def test_an_endpoint_that_is_none_is_refused(value: str) -> None:
    with pytest.raises(OptionError, match="option endpoint is"):
        connection_options({"endpoint": f"http://127.0.0.1,{value}"})


def test_a_password_in_the_endpoint_is_refused_and_not_repeated() -> None:
    with pytest.raises(OptionError, match="credentialsFile") as caught:
        connection_options({"endpoint": "http://guest:hunter2@localhost"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("name", ["password", "Password", "secret"])
def test_a_password_among_the_options_is_refused_and_not_repeated(name: str) -> None:
    with pytest.raises(OptionError, match="credentialsFile or the environment variable LEVERET_PASSWORD") as caught:
        source_options({"queue": "q", name: "hunter2"})
    assert "hunter2" not in str(caught.value)


def test_a_password_comes_from_the_first_line_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "credentials"
    file.write_text("hunter2\r\nnothing else\n")
    assert connection_options({"username": "u", "credentialsFile": str(file)}).secret == Secret("hunter2")


def test_a_password_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEVERET_PASSWORD", "hunter2")
    access = connection_options({"username": "u", "endpoint": "http://broker.example"})
    assert access.secret == Secret("hunter2")
    assert "hunter2" not in repr(access)


@pytest.mark.parametrize("options", [{"username": "u"}, {"endpoint": "http://broker.example"}])
def test_only_guest_on_this_machine_needs_no_password(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"no password for user '\w+': .*credentialsFile.*LEVERET_PASSWORD"):
        connection_options(options)


def test_a_credentials_file_that_helps_nobody_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"credentialsFile: '.*absent' cannot be read on the driver"):
        connection_options({"credentialsFile": str(tmp_path / "absent")})
    (tmp_path / "empty").write_text("\nhunter2\n")
    with pytest.raises(OptionError, match=r"the first line of '.*empty' is empty"):
        connection_options({"credentialsFile": str(tmp_path / "empty")})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\n")
    with pytest.raises(OptionError, match="is not UTF-8"):
        connection_options({"credentialsFile": str(tmp_path / "binary")})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"queue": "q", "startingOfsets": "1"}, "option startingofsets is unknown; did you mean startingOffsets?"),
        ({"queue": "q", "zzzzzz": "1"}, "option zzzzzz is unknown; known options are endpoint, "),
        ({"queue": "q", "exchange": "e"}, "option exchange is for sinks only; remove it"),
        ({"path": "q"}, r'option path is unknown: name the queue by .option("queue", ...)'),
        ({}, "one of the options queue, superStream, subscribePattern is required, none is given"),
        ({"queue": "q", "superStream": "s"}, "queue and superStream are given; set exactly one"),
        ({"queue": ""}, "option queue is empty"),
        ({"subscribePattern": "("}, "option subscribePattern is '('; give a regular expression"),
        ({"queue": "q", "maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger is '0'; give a whole number of at least 1"),
        ({"queue": "q", "maxBytesPerTrigger": "1k"}, "option maxBytesPerTrigger is '1k'; give a whole number"),
        ({"queue": "q", "minPartitions": "-1"}, "option minPartitions is '-1'; give a whole number"),
        ({"queue": "q", "includeHeaders": "yes"}, "option includeHeaders is 'yes'; give true or false"),
        ({"queue": "q", "startingOffsets": "soon"}, "option startingOffsets is 'soon'; give a word, or JSON"),
        ({"queue": "q", "startingOffsets": '{"q": -3}'}, "whole numbers of at least -2"),
        ({"queue": "q", "startingOffsets": '{"q": true}'}, "whole numbers of at least -2"),
        ({"queue": "q", "startingOffsets": "{}"}, "give a word, or JSON"),
        ({"queue": "q", "endingOffsets": "earliest"}, "option endingOffsets is 'earliest'; give latest or JSON"),
        ({"queue": "q", "endingOffsets": '{"q": -2}'}, "whole numbers of at least -1"),
        ({"queue": "q", "startingTimestamp": "-5"}, "option startingTimestamp is '-5'"),
        (
            {"queue": "q", "startingTimestamp": "5", "startingOffsets": "latest"},
            "options startingOffsets and startingTimestamp exclude each other",
        ),
        (
            {"queue": "q", "endingTimestamp": "5", "endingOffsets": "latest"},
            "options endingOffsets and endingTimestamp exclude each other",
        ),
        (
            {"queue": "q", "startingTimestamp": "1700000000"},
            "is '1700000000', which looks like seconds; give milliseconds: 1700000000000 is 2023-11-14T22:13:20Z",
        ),
        ({"queue": "q", "startingTimestamp": "1700000000000000"}, "which is after the year 5000; give milliseconds"),
        ({"queue": "q", "startingTimestamp": "yesterday"}, "is 'yesterday'; give milliseconds since 1970, a time such"),
        ({"queue": "q", "startingTimestamp": "1931-05-01T00:00:00Z"}, "give a time after 1970"),
        ({"queue": "q", "endingTimestamp": '{"q": 1700000000}'}, "looks like seconds"),
        ({"queue": "q", "endingTimestamp": '{"q": [1]}'}, "for each queue as JSON"),
        (
            {"queue": "q", "startingOffsetsByTimestamp": '{"q": 5}', "startingTimestamp": "5"},
            "options startingTimestamp and startingOffsetsByTimestamp exclude each other",
        ),
        ({"queue": "q", "maxTriggerDelay": "1m"}, "maxTriggerDelay is the longest wait for minOffsetsPerTrigger"),
        ({"queue": "q", "minOffsetsPerTrigger": "9", "maxTriggerDelay": "soon"}, "give a duration such as 500ms"),
        (
            {"queue": "q", "minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"},
            "more than maxOffsetsPerTrigger (8)",
        ),
        ({"queue": "q", "pinned": "true"}, "option pinned is 'true' without a consumerName"),
        ({"queue": "q", "timeoutSeconds": "0"}, "option timeoutSeconds is '0'"),
    ],
)
def test_a_source_refuses(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        source_options(options)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"guarantee": "maybe"}, "option guarantee is 'maybe'; give exactly-once or at-least-once"),
        ({"queue": "q"}, "option queue is for sources only"),
        ({"mandatory": "1"}, "option mandatory is '1'; give true or false"),
        ({"transactionId": ""}, "option transactionId is empty"),
        ({"batchId": "1"}, "option batchId numbers the parts of a transaction; name it by the option transactionId"),
        ({"transactionId": "t", "batchId": "x"}, "option batchId is 'x'; give a whole number of at least 0"),
        ({"routing_key": "k"}, "did you mean routingKey?"),
    ],
)
def test_a_sink_refuses(options: dict[str, str], text: str) -> None:
    with pytest.raises(OptionError) as caught:
        sink_options(options)
    assert text in str(caught.value)


def test_what_spark_adds_to_a_sink_is_let_pass() -> None:
    options = sink_options({"checkpointlocation": "/c", "queryname": "n", "exchange": "", "guarantee": "AT-least-once"})
    assert (options.exchange, options.exactly_once, options.transaction) == ("", False, None)


@pytest.mark.parametrize(
    ("options", "position"),
    [
        ({"startingOffsets": "Earliest"}, Position("startingOffsets", everywhere=EARLIEST)),
        ({"startingOffsets": "latest"}, Position("startingOffsets", everywhere=LATEST)),
        ({"startingOffsets": '{"a": 3, "b": -1}'}, Position("startingOffsets", by_queue={"a": 3, "b": -1})),
        ({"startingTimestamp": "1700000000000"}, Position("startingTimestamp", timestamp=1700000000000)),
        ({"startingTimestamp": "2023-11-14T22:13:20Z"}, Position("startingTimestamp", timestamp=1700000000000)),
        ({"startingTimestamp": "2023-11-14T23:13:20+01:00"}, Position("startingTimestamp", timestamp=1700000000000)),
        ({"startingTimestamp": "2023-11-14 22:13:20"}, Position("startingTimestamp", timestamp=1700000000000)),
        ({"startingTimestamp": "0"}, Position("startingTimestamp", timestamp=0)),
        (
            {"startingTimestamp": '{"a": 5, "b": "2023-11-14T22:13:20Z"}'},
            Position("startingTimestamp", timestamps={"a": 5, "b": 1700000000000}),
        ),
        (
            {"startingOffsetsByTimestamp": '{"a": 1700000000000}'},
            Position("startingOffsetsByTimestamp", timestamps={"a": 1700000000000}),
        ),
        ({}, None),
    ],
)
def test_a_start_is_a_word_numbers_or_a_moment(options: dict[str, str], position: Position | None) -> None:
    assert source_options({"queue": "q", **options}).starting == position


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("90 s", 90), ("15m", 900), ("2min", 120), ("1H", 3600)])
def test_a_delay_has_a_unit(text: str, seconds: float) -> None:
    options = source_options({"queue": "q", "minOffsetsPerTrigger": "5", "maxTriggerDelay": text})
    assert (options.min_rows, options.longest_delay) == (5, seconds)


def test_options_of_streams_and_of_batches_are_told_apart() -> None:
    with pytest.raises(OptionError, match=r"consumerName is for streaming reads \(readStream\) only"):
        refuse_options_of_streams({"consumername": "c"})
    with pytest.raises(OptionError, match=r"endingOffsets is for batch reads \(read\) only"):
        refuse_options_of_batches({"endingoffsets": "latest"})


def test_columns_are_a_list_of_columns_of_a_message() -> None:
    source = LeveretDataSource({"queue": "q", "columns": "offset, headers"})
    assert source.schema().fieldNames() == ["offset", "headers"]
    assert LeveretDataSource({"queue": "q"}).schema() == SCHEMA
    assert source_options({"queue": "q", "columns": "headers"}).include_headers
    assert not source_options({"queue": "q", "columns": "headers", "includeHeaders": "false"}).include_headers
    assert not source_options({"queue": "q", "columns": "body"}).include_headers
    for text, problem in (
        ("body,colour", "option columns: a message has no column 'colour'; choose among body, routing_key"),
        ("body,,offset", "option columns is 'body,,offset'; give each name once"),
        ("body,body", "option columns is 'body,body'; give each name once"),
        ("", "option columns is empty"),
    ):
        with pytest.raises(OptionError, match=problem):
            LeveretDataSource({"queue": "q", "columns": text}).schema()
    with pytest.raises(
        OptionError, match=r"option columns is 'offset,headers', and the schema has the columns body; re"
    ):
        source.reader(columns_of(["body"]))
