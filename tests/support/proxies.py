"""nginx and HAProxy as processes, with the configuration of the guide on free ports of this machine."""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.cell_ports import free_ports
from tests.support.programs import require_program
from tests.support.raw_client import eventually

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide" / "proxies"


def free_port() -> int:
    """Not one that the system gives to a connection before the program has it."""
    return free_ports(1)[0]


class Proxy:
    """Running once it is entered; ``port`` by the port of the guide."""

    def __init__(self, command: list[str], ports: Mapping[int, int], folder: Path) -> None:
        self._command = command
        self._log = folder / "log"
        self.ports = dict(ports)

    def __enter__(self) -> Self:
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            for port in self.ports.values():
                eventually(lambda port=port: self._listens(port))  # type: ignore[misc]
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def _listens(self, port: int) -> bool:
        assert self._process.poll() is None, self._log.read_text()
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", port)) == 0

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(60)


def haproxy(folder: Path, text: str, brokers: Mapping[int, int]) -> Proxy:
    """``brokers`` has the broker's real port for each of the guide; listeners for others are left out."""
    program = require_program("haproxy")
    sections = re.split(r"\n(?=listen |# )", text)
    kept = [each for each in sections if "bind" not in each or int(re.findall(r"bind :(\d+)", each)[0]) in brokers]
    ports = {port: free_port() for port in brokers}
    text = re.sub(r"bind :(\d+)", lambda match: f"bind 127.0.0.1:{ports[int(match[1])]}", "\n".join(kept))
    text = re.sub(r"10\.0\.0\.9:(\d+)", lambda match: f"127.0.0.1:{brokers[int(match[1])]}", text)
    config = folder / "haproxy.cfg"
    config.write_text(text + "\n")
    return Proxy([program, "-db", "-f", str(config)], ports, folder)


def nginx(folder: Path, text: str, broker: int, certificate: Path | None = None, key: Path | None = None) -> Proxy:
    program = require_program("nginx")
    port = free_port()
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("127.0.0.1:15672", f"127.0.0.1:{broker}")
    text = text.replace("/etc/nginx/leveret.pem", str(certificate)).replace("/etc/nginx/leveret.key", str(key))
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    own = "".join(f"    {kind}_temp_path {folder}/{kind};\n" for kind in kinds)
    config = folder / "nginx.conf"
    config.write_text(text.replace("http {\n", f"http {{\n    access_log off;\n{own}", 1))
    here = f"daemon off; master_process off; pid {folder}/nginx.pid;"
    return Proxy([program, "-p", str(folder), "-e", "stderr", "-c", str(config), "-g", here], {443: port}, folder)
