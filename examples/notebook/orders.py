# %% [markdown]
# # Charts from a queue
# Reads the messages of a queue or stream with Spark, without consuming them, and draws charts of them. It needs
# `pip install 'leveret[spark]'`, Java 17 and a running broker, and no other package: the charts are SVG.
#
# Run the cells one by one in an editor that supports `# %%` cells (VS Code, PyCharm, Spyder, Jupyter with jupytext), or
# all at once: `python examples/notebook/orders.py`. Each message should be a JSON object with a number `total`.

# %% Settings
import os
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

ENDPOINT = os.environ.get("LEVERET_ENDPOINT", "http://127.0.0.1:15672")
QUEUE = os.environ.get("LEVERET_QUEUE", "orders")
FOLDER = Path(os.environ.get("CHARTS_FOLDER", "charts"))

# %% Read the queue
spark = SparkSession.builder.master("local[*]").appName("orders").getOrCreate()
messages = spark.read.format("leveret").options(endpoint=ENDPOINT, queue=QUEUE).load()
orders = messages.select(
    # A stream has the time of arrival. A classic queue has only the time that the publisher may have set.
    F.coalesce("timestamp", "properties.timestamp").alias("timestamp"),
    "routing_key",
    F.octet_length("body").alias("size"),
    F.get_json_object(F.col("body").cast("string"), "$.total").cast("double").alias("total"),
).cache()
print(f"{orders.count()} messages in {QUEUE}")

# %% A chart
WIDTH, HEIGHT, MARGIN = 640, 240, 48
COLOURS = ("#2f6f5e", "#ab5f17", "#4a6fb0", "#8f4f6f")


class BarChart:
    """Groups of bars, one bar for each series. A notebook shows it as a picture."""

    def __init__(self, title: str, groups: Sequence[str], series: Mapping[str, Sequence[float]]) -> None:
        self.title, self.groups, self.series = title, groups, series

    def _repr_svg_(self) -> str:
        top = max((value for values in self.series.values() for value in values), default=0) or 1
        step = (WIDTH - 2 * MARGIN) / max(len(self.groups), 1)
        width = step * 0.8 / max(len(self.series), 1)
        parts = [self._text(MARGIN, 20, self.title), self._text(4, MARGIN, f"{top:g}")]
        for number, (name, values) in enumerate(self.series.items()):
            colour = COLOURS[number % len(COLOURS)]
            parts.append(self._text(MARGIN + number * 150, 36, name, colour))
            for place, value in enumerate(values):
                tall = value / top * (HEIGHT - 2 * MARGIN)
                x = MARGIN + place * step + number * width
                parts.append(
                    f'<rect x="{x:.1f}" y="{HEIGHT - MARGIN - tall:.1f}" width="{width:.1f}" height="{tall:.1f}" '
                    f'fill="{colour}"><title>{escape(name)} {value:g}</title></rect>'
                )
        for place in range(0, len(self.groups), max(len(self.groups) // 8, 1)):
            parts.append(self._text(MARGIN + place * step, HEIGHT - MARGIN + 16, self.groups[place]))
        inside = "\n".join(parts)
        return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>\n'

    def _text(self, x: float, y: float, text: str, colour: str = "#555") -> str:
        font = f'font-family="sans-serif" font-size="12" fill="{colour}"'
        return f'<text x="{x:.1f}" y="{y:.1f}" {font}>{escape(text)}</text>'

    def save(self, name: str) -> "BarChart":
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / name).write_text(self._repr_svg_(), encoding="utf-8")
        return self


# %% Messages per minute, by routing key
minute = F.coalesce(F.date_format("timestamp", "HH:mm"), F.lit("unknown")).alias("minute")
minutes = orders.groupBy(minute).pivot("routing_key").count().na.fill(0)
rows = minutes.orderBy("minute").collect()
keys = [name for name in minutes.columns if name != "minute"]
BarChart(
    "Messages per minute", [row["minute"] for row in rows], {key: [row[key] for row in rows] for key in keys}
).save("messages.svg")

# %% Orders by total
buckets = orders.where("total IS NOT NULL").groupBy((F.floor(F.col("total") / 50) * 50).alias("from")).count()
rows = buckets.orderBy("from").collect()
BarChart("Orders by total", [f"{row['from']}+" for row in rows], {"orders": [row["count"] for row in rows]}).save(
    "totals.svg"
)

# %% The largest messages
orders.orderBy(F.desc("size")).select("timestamp", "routing_key", "size", "total").show(5, truncate=False)
print(f"charts are in {FOLDER}")
