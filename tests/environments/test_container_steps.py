"""The steps of the container file, without a container: the same commands, with the folders of the image below a
temporary one. The users of the image are left out, and the broker listens on the loopback address."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.cell_clients import until
from tests.support.cell_ports import free_ports
from tests.support.container_file import last_stage, stages
from tests.support.environment import ROOT, clean_environ
from tools.lock_image import python_of_image

pytestmark = pytest.mark.timeout(600)  # pip downloads pyarrow

FOLDERS = re.compile(r"(?<!\w)/(?:opt/leveret|var/lib/leveret|build)\b")


def image_python() -> Path:
    """The Python version of the image, on the PATH or installed beside the one that runs the tests; else that one."""
    name = f"python{python_of_image()}"
    beside = sorted(Path(sys.base_prefix).parent.glob(f"{python_of_image()}.*/bin/{name}"))
    on_path = shutil.which(name)
    for found in [*([Path(on_path)] if on_path else []), *beside]:
        if subprocess.run([found, "--version"], capture_output=True, timeout=30).returncode == 0:
            return found
    return Path(sys.base_prefix, "bin", "python3")


class Image:
    """The root of an image, as a folder."""

    def __init__(self, root: Path, python: Path) -> None:
        self.root = root
        self._here = root
        self.environ = clean_environ()
        self._is_of_image = python.name == f"python{python_of_image()}"
        (programs := root / "programs").mkdir()
        programs.joinpath("python").symlink_to(python)
        self.environ["PATH"] = f"{programs}:{self.environ['PATH']}"
        self._steps: dict[str, Callable[[str], None]] = {
            "WORKDIR": self._enter,
            "COPY": self._copy,
            "RUN": self._run,
            "ENV": self._set,
        }

    def follow(self, stage: list[tuple[str, str]]) -> None:
        for word, rest in stage:
            if word in self._steps:
                self._steps[word](self.placed(rest))

    def placed(self, text: str) -> str:
        return FOLDERS.sub(lambda found: f"{self.root}{found[0]}", text)

    def _enter(self, folder: str) -> None:
        self._here = Path(folder)
        self._here.mkdir(parents=True)

    def _copy(self, names: str) -> None:
        if names.startswith("--from"):  # it is in its place
            return
        *sources, target = names.split()
        for source in map(ROOT.joinpath, sources):
            if source.is_dir():
                shutil.copytree(source, self._here / target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, self._here / target)
                self._unlock(self._here / target / source.name)

    def _unlock(self, file: Path) -> None:
        """The versions and hashes of lock files are those for the Python of the image."""
        if file.suffix == ".lock" and not self._is_of_image:
            file.write_text("\n".join(re.findall(r"^([\w.-]+)==", file.read_text(), re.MULTILINE)))

    def _run(self, commands: str) -> None:
        if commands.startswith("groupadd"):
            self.root.joinpath("var/lib/leveret").mkdir(0o700, parents=True)
            return
        commands = commands.replace(" --no-cache-dir", "")  # changes the size of an image only
        if not self._is_of_image:
            commands = commands.replace(" --require-hashes", "")
        done = subprocess.run(
            ["sh", "-ec", commands], cwd=self._here, env=self.environ, capture_output=True, text=True, timeout=400
        )
        assert done.returncode == 0, f"{commands}: {done.stdout}{done.stderr}"

    def _set(self, pairs: str) -> None:
        for pair in pairs.split():
            name, _, value = pair.partition("=")
            self.environ[name] = value.replace("$PATH", self.environ["PATH"])


def test_the_steps_lead_to_a_broker_that_is_healthy(tmp_path: Path) -> None:
    image = Image(tmp_path, image_python())
    for stage in stages():
        image.follow(stage)
    assert image.environ["LEVERET_HOST"] == "0.0.0.0"
    (port,) = free_ports(1)
    environ = image.environ | {"LEVERET_HOST": "127.0.0.1", "LEVERET_HTTP_PORT": str(port), "LEVERET_AMQP_PORT": "0"}
    environ |= {"LEVERET_STOMP_PORT": "off"}
    found = dict(last_stage())
    command = [*json.loads(found["ENTRYPOINT"]), *json.loads(found["CMD"])]
    check = json.loads(found["HEALTHCHECK"].partition("CMD ")[2])

    def is_healthy() -> bool:
        assert process.poll() is None, "the broker has ended"
        return subprocess.run(check, env=environ, capture_output=True, timeout=30).returncode == 0

    with subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.DEVNULL) as process:
        try:
            until(is_healthy, 60)
            url = ["--url", f"http://127.0.0.1:{port}"]
            subprocess.run(["leveret", "queues", "list", *url], env=environ, check=True, timeout=60)
            extras = "import nats, numpy, pyarrow"
            subprocess.run(["python", "-c", extras], env=environ, check=True, timeout=60)
        finally:
            process.terminate()
    assert process.returncode == 0
    assert list((tmp_path / "var/lib/leveret").iterdir())
