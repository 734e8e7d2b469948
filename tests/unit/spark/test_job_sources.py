"""The options with which ready pipelines read queues."""

from __future__ import annotations

import pytest

from leveret.spark.errors import OptionError
from leveret.spark.jobs.archive import ArchiveOptions
from leveret.spark.jobs.messages import batch_settings, stream_settings
from leveret.spark.lease_reader import LeaseReader
from leveret.spark.options import refuse_options_of_streams, source_options
from leveret.spark.schema import SCHEMA
from leveret.spark.shape import Shape

TIME = "2026-11-18T06:00:00Z"
POSITIONS = [
    ("startingTimestamp", TIME),
    ("startingOffsetsByTimestamp", f'{{"q": "{TIME}"}}'),
    ("STARTINGOFFSETSBYTIMESTAMP", TIME),
    ("startingoffsets", "latest"),
]


def archive(**options: str) -> ArchiveOptions:
    return ArchiveOptions(queue="q", path="/x", option=options)


def test_a_new_query_starts_at_the_first_message_of_a_stream() -> None:
    settings = stream_settings(archive(), "archive", is_classic=False)
    assert settings == {"queue": "q", "startingOffsets": "earliest"}


@pytest.mark.parametrize(("name", "value"), POSITIONS)
def test_a_position_of_the_user_replaces_the_first_message(name: str, value: str) -> None:
    settings = stream_settings(archive(**{name: value}), "archive", is_classic=False)
    assert settings == {"queue": "q", name: value}
    assert source_options(settings).starting is not None


@pytest.mark.parametrize(("name", "value"), POSITIONS)
def test_a_position_in_a_classic_queue_is_refused_by_its_name(name: str, value: str) -> None:
    options = source_options(stream_settings(archive(**{name: value}), "archive", is_classic=True))
    assert options.consumer == "archive"
    with pytest.raises(OptionError, match=f"(?i)option {name} is not supported"):
        LeaseReader(options, Shape(SCHEMA, headers=True))


def test_a_batch_read_has_no_options_of_streaming_reads() -> None:
    options = archive(MAXOFFSETSPERTRIGGER="7", consumername="me", minPartitions="2")
    settings = batch_settings(options)
    assert settings == {"queue": "q", "minPartitions": "2"}
    refuse_options_of_streams(settings)
