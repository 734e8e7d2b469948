"""The alert rules and the Grafana dashboard of packaging/, as data."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml  # type: ignore[import-untyped]

from leveret.stats.metric_help import HELP

PACKAGING = Path(__file__).resolve().parents[2] / "packaging"
RULES = PACKAGING / "prometheus" / "leveret.rules.yml"
DASHBOARD = PACKAGING / "grafana" / "leveret.json"
NOT_IN_HELP = {"build_info", "identity_info"}
GRAFANA_VALUES = {"$__rate_interval": "5m", "$job": "leveret", "$instance": ".*"}


class Alert(NamedTuple):
    name: str
    expression: str
    seconds: int
    labels: dict[str, str]
    annotations: dict[str, str]


def alerts() -> list[Alert]:
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [
        Alert(rule["alert"], rule["expr"], _seconds(rule.get("for", "0s")), rule["labels"], rule["annotations"])
        for group in groups
        for rule in group["rules"]
    ]


def _seconds(text: str) -> int:
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def dashboard() -> dict[str, Any]:
    made: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return made


def dashboard_expressions() -> dict[str, str]:
    """By panel and legend, with Grafana's variables replaced."""
    found = {}
    for panel in dashboard()["panels"]:
        for target in panel.get("targets", ()):
            expression = target["expr"]
            for variable, value in GRAFANA_VALUES.items():
                expression = expression.replace(variable, value)
            found[f"{panel['title']} {target['refId']}"] = expression
    return found


def metrics_in(expression: str) -> set[str]:
    without_labels = re.sub(r"\{[^}]*\}|(?:by|on|without) \([^)]*\)", "", expression)
    return set(re.findall(r"\b(?:rabbitmq|leveret|process)_\w+", without_labels))


def is_documented(metric: str) -> bool:
    """Whether the metric has a help text, by its name without prefix and suffix."""
    bare = re.sub("^(?:rabbitmq_detailed_|rabbitmq_|leveret_)", "", metric)
    return {bare, re.sub("_(?:bucket|sum|count)$", "", bare)} & (HELP.keys() | NOT_IN_HELP) != set()
