"""The text format of Prometheus: metrics as values, and as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from leveret.stats.metric_families import Family, Labels, Value, family_of

HISTOGRAM, SUMMARY, CONTINUED = "histogram", "summary", ""

Sample = tuple[Labels, Value]
Metric = tuple[str, Family, list[Sample]]
"""Prefix, family and samples. A family of the kind CONTINUED has further samples of the metric before it."""


def histogram(prefix: str, name: str, bounds: Sequence[int], numbers: Sequence[int], total: Value) -> list[Metric]:
    """``numbers`` are cumulative, one for each bound and one for all."""
    bucket = Family(f"{name}_bucket", CONTINUED, "")
    limits = [*map(str, bounds), "+Inf"]
    samples: list[Sample] = [((("le", limit),), number) for limit, number in zip(limits, numbers, strict=True)]
    return [
        (prefix, family_of(name)._replace(kind=HISTOGRAM), []),
        (prefix, bucket, samples),
        *_sum_and_count(prefix, name, total, numbers[-1]),
    ]


def summary(prefix: str, name: str, total: Value, number: int) -> list[Metric]:
    """Without quantiles: the rate of the sum divided by that of the count is the average."""
    return [(prefix, family_of(name)._replace(kind=SUMMARY), []), *_sum_and_count(prefix, name, total, number)]


def _sum_and_count(prefix: str, name: str, total: Value, number: int) -> list[Metric]:
    return [
        (prefix, Family(f"{name}_sum", CONTINUED, ""), [((), total)]),
        (prefix, Family(f"{name}_count", CONTINUED, ""), [((), number)]),
    ]


def with_labels(metrics: Iterable[Metric], labels: Labels) -> list[Metric]:
    """The same metrics, each sample with further labels."""
    return [
        (prefix, family, [((*labels, *own), value) for own, value in samples]) for prefix, family, samples in metrics
    ]


def written(metrics: Iterable[Metric]) -> bytes:
    """Help and kind once for each metric, then its samples."""
    lines: list[str] = []
    for prefix, family, samples in metrics:
        name = prefix + family.name
        if family.kind != CONTINUED:
            lines += (f"# HELP {name} {family.help}", f"# TYPE {name} {family.kind}")
        lines += [f"{name}{_labels(labels)} {value}" for labels, value in samples]
    lines.append("")
    return "\n".join(lines).encode()


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{escaped(value)}"' for name, value in labels]) + "}"


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
