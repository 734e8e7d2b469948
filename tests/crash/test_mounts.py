"""The power cuts of the tests themselves."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.mounts import ext4_on_a_file
from tests.support.programs import require_program

pytestmark = pytest.mark.slow


def test_a_disk_works_after_a_power_cut_while_another_mount_namespace_exists(tmp_path: Path) -> None:
    """Such as those of ``ip netns exec`` in tests that run at the same time."""
    require_program("unshare")
    with ext4_on_a_file(tmp_path / "image", tmp_path / "disk", 16 << 20) as disk:
        (disk.place / "before").write_text("synced by nothing")
        holding = ["unshare", "--mount", "--propagation", "slave", "sh", "-c", "echo ready; exec sleep 60"]
        with subprocess.Popen(holding, stdout=subprocess.PIPE) as other:
            try:
                assert other.stdout is not None
                assert other.stdout.readline() == b"ready\n"
                disk.cut()
                with pytest.raises(OSError, match="Input/output error"):
                    (disk.place / "during").write_text("lost")
                disk.power_up()
                (disk.place / "after").write_text("kept")
            finally:
                other.kill()
