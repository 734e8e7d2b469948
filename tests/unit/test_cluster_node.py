"""A node of a cell that does not lead, as far as it needs no engine."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from leveret.cluster_node import ClusterNode
from leveret.config import Settings
from leveret.errors import ConfigError


def test_a_standby_reloads_its_settings_for_when_it_leads(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    running = replace(Settings(), data_dir=tmp_path, connection_max=5, frame_max=8192)
    node = ClusterNode(running)

    async def reload(load: Settings | ConfigError) -> Settings:
        def loaded() -> Settings:
            if isinstance(load, ConfigError):
                raise load
            return load

        await node.reload(loaded)
        return node.settings

    async def story() -> None:
        assert await reload(ConfigError("connection_max is not a number")) == running
        assert "connection_max is not a number" in caplog.text
        wanted = replace(running, connection_max=7, frame_max=16384)
        assert await reload(wanted) == replace(running, connection_max=7)  # the other one needs a restart

    asyncio.run(story())
