"""An HTML page with line charts as SVG, without scripts or other files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

Points = Sequence[tuple[float, float]]  # seconds since the first window, value
COLOURS = ("#2f6f8f", "#d98324", "#6a9f4f", "#8f4f6f", "#55555f")
WIDTH, HEIGHT, LEFT, BOTTOM, TOP = 900, 260, 60, 30, 16


def page(title: str, charts: Mapping[str, Mapping[str, Points]], notes: Sequence[str]) -> str:
    parts = "\n".join(f"<h2>{escape(name)}</h2>\n{svg(lines)}" for name, lines in charts.items())
    items = "".join(f"<li>{escape(note)}</li>" for note in notes)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<style>body {{ font: 15px/1.5 sans-serif; max-width: 940px; margin: 2em auto; color: #333 }} h2 {{ font-size: 1.1em }}
text {{ font: 12px sans-serif; fill: #555 }}</style></head>
<body><h1>{escape(title)}</h1>
{parts}
<ul>{items}</ul></body></html>
"""


def svg(lines: Mapping[str, Points]) -> str:
    """Lines over one pair of axes, with their names in the corner."""
    across = max((at for points in lines.values() for at, _ in points), default=0) or 1
    top = nice(max((value for points in lines.values() for _, value in points), default=0))

    def place(at: float, value: float) -> tuple[float, float]:
        return LEFT + at / across * (WIDTH - LEFT - 10), HEIGHT - BOTTOM - value / top * (HEIGHT - BOTTOM - TOP)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img">']
    for step in range(5):
        _, y = place(0, top * step / 4)
        parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 10}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{top * step / 4:g}</text>')
    for step in range(7):
        x, _ = place(across * step / 6, 0)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{across * step / 6:.0f} s</text>')
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(at, value) for at, value in points))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{LEFT + 10 + number * 130}" y="12" style="fill: {colour}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])


def nice(value: float) -> float:
    """The next round number at or above."""
    if value <= 0:
        return 1
    size = 1.0
    while size * 10 <= value:
        size *= 10
    while size > value:
        size /= 10
    return next(size * step for step in (1, 2, 4, 5, 8, 10) if size * step >= value)
