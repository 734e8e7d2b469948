"""Metrics, read as Prometheus reads them."""

from __future__ import annotations

import re

from leveret import Broker
from tests.support.http_api import HttpApi

LINE = re.compile(r'^([a-z_:][a-z0-9_:]*)(\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\})? (-?[0-9][0-9.e+-]*)$')
DISTRIBUTIONS = ("histogram", "summary")


class Scraped:
    """The text, read as Prometheus reads it: every line must be one that it knows."""

    def __init__(self, text: str) -> None:
        self.values: dict[str, float] = {}
        self.kinds: dict[str, str] = {}
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split(" ")
                assert name not in self.kinds, f"{name} is told twice"
                self.kinds[name] = kind
            elif not line.startswith("# HELP "):
                found = LINE.match(line)
                assert found, line
                whole = re.sub("_(bucket|sum|count)$", "", found[1])
                assert found[1] in self.kinds or self.kinds[whole] in DISTRIBUTIONS, line
                self.values[found[1] + (found[2] or "")] = float(found[3])

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    @property
    def names(self) -> set[str]:
        return {name.partition("{")[0] for name in self.values}


def scrape(broker: Broker, path: str = "/metrics") -> Scraped:
    response, body = HttpApi(broker.http_url, None).send("GET", path)
    assert response.status == 200, body
    assert response.getheader("content-type") == "text/plain; version=0.0.4; charset=utf-8"
    return Scraped(body.decode())
