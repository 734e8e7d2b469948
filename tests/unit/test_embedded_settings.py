"""An embedded broker keeps its own defaults for what the caller has not set, and settings are checked in code too."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import leveret
from leveret.config import Settings
from leveret.errors import ConfigError
from leveret.setting_kinds import MemoryWatermark

PORTS = ("amqp_port", "amqps_port", "http_port", "https_port", "stomp_port")
FREE = (0, 0, None, None, None)


def ports(settings: Settings) -> tuple[int | None, ...]:
    return tuple(getattr(settings, name) for name in PORTS)


@pytest.mark.parametrize(
    ("settings", "changes", "expected"),
    [
        (None, {}, FREE),
        (None, {"http_port": 0}, (0, 0, 0, None, None)),
        (None, {"amqp_port": 5672}, (5672, *FREE[1:])),
        (Settings(), {}, FREE),
        (Settings(http_port=0), {}, (0, 0, 0, None, None)),
        (Settings(http_port=0), {"stomp_port": 0}, (0, 0, 0, None, 0)),
        (Settings(amqp_port=5672, http_port=15672), {}, (5672, 0, 15672, None, None)),  # given, though the defaults
        (Settings(amqps_port=5671, https_port=15671), {}, (0, 5671, None, 15671, None)),
        (replace(Settings(http_port=0), frame_max=8192), {}, (0, 0, 0, None, None)),
        (replace(Settings(amqp_port=5672), http_port=0), {}, (5672, 0, 0, None, None)),
        (Settings(amqp_port=None), {"amqp_port": 0}, FREE),
    ],
)  # fmt: skip
def test_one_setting_does_not_move_the_others(
    settings: Settings | None, changes: dict[str, Any], expected: tuple[int | None, ...]
) -> None:
    made = leveret.Broker(settings, **changes).settings
    assert ports(made) == expected
    assert ports(leveret.Broker(replace(made, frame_max=8192)).settings) == expected
    assert made.shutdown_timeout == 0.5


def test_the_login_of_an_embedded_broker(tmp_path: Path) -> None:
    """Random without a data directory, where nothing would remember it; with settings it is the caller's."""
    assert len({leveret.Broker(**each).password for each in ({}, {}, {"http_port": 0})}) == 3
    assert len(leveret.Broker(http_port=0).password) > 20
    kept = replace(leveret.Broker().settings, http_port=0)
    assert leveret.Broker(kept).password == kept.default_password
    assert leveret.Broker(Settings(http_port=0)).password == "guest"
    assert leveret.Broker(default_password="mine").password == "mine"
    stored = leveret.Broker(data_dir=tmp_path)
    assert (stored.password, stored.settings.shutdown_timeout, ports(stored.settings)) == ("guest", 10.0, FREE)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"amqp_port": "x"}, "amqp_port = 'x' cannot be used; accepted: a port from 1 to 65535, 0 for a free one"),
        ({"http_port": 70_000}, "http_port = 70000 cannot be used"),
        ({"heartbeat": None}, "heartbeat = None cannot be used; accepted: a whole number from 0 to 65535"),
        ({"durability": "soon"}, "durability = 'soon' cannot be used; accepted: one of fsync, os"),
        ({"default_password": 7}, r"default_password = \*\*\* cannot be used"),
        ({"loopback_users": {7}}, r"loopback_users = \{7\} cannot be used"),
    ],
)  # fmt: skip
def test_a_wrong_value_in_code_is_refused_by_the_name_of_its_setting(values: dict[str, Any], message: str) -> None:
    for make in (Settings, leveret.Broker, lambda **changes: replace(Settings(), **changes)):
        with pytest.raises(ConfigError, match=message) as refused:
            make(**values)
        assert "--" not in str(refused.value)


def test_values_in_code_may_be_texts_as_in_a_file() -> None:
    settings = Settings(
        data_dir="/var/lib/leveret",  # type: ignore[arg-type]
        memory_high_watermark="40%",  # type: ignore[arg-type]
        max_message_size="1MiB",  # type: ignore[arg-type]
        host="127.0.0.1,::1",  # type: ignore[arg-type]
        connection_max=None,
        loopback_users=frozenset({"guest"}),
    )
    assert (settings.data_dir, settings.max_message_size) == (Path("/var/lib/leveret"), 1 << 20)
    assert settings.memory_high_watermark == MemoryWatermark(percent=40.0)
    assert (settings.host, settings.connection_max) == (("127.0.0.1", "::1"), None)
    assert settings == replace(settings)
    assert replace(settings).given == settings.given


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"leveret.Broker has no setting 'amqp_prot'"):
        leveret.Broker(amqp_prot=0)
    with pytest.raises(TypeError):
        Settings(amqp_prot=0)  # type: ignore[call-arg]
