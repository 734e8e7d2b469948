"""What the operator sees once the broker listens: where it is, what to try, how to stop it."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from leveret.config import Settings


def banner(settings: Settings, endpoints: Mapping[str, str], version: str) -> str:
    places = {name: _url(name, url, settings) for name, url in endpoints.items()}
    if settings.data_dir is None:
        places["data"] = "in memory only: a restart forgets everything"
    else:
        note = "" if settings.durability == "fsync" else " (durability os: a power cut may lose confirmed messages)"
        places["data"] = f"{settings.data_dir.absolute()}{note}"
    width = max(map(len, places))
    lines = [f"Leveret {version} is ready as {settings.node_name}", ""]
    lines += [f"  {name:{width}}  {place}" for name, place in places.items()]
    if "amqp" in places:
        lines += ["", "  Try it: pip install pika, then in Python", *_first_message(places["amqp"])]
    lines += ["", "  Stop it with Ctrl-C.", ""]
    return "\n".join(lines) + "\n"


def _first_message(url: str) -> list[str]:
    return [
        f'    import pika; channel = pika.BlockingConnection(pika.URLParameters("{url}")).channel()',
        '    channel.queue_declare("hello"); channel.basic_publish("", "hello", b"Hello"); channel.basic_get("hello")',
    ]


def _url(name: str, url: str, settings: Settings) -> str:
    """The URL a client can use as it is. The well-known guest password is shown; any other is a secret."""
    if name not in ("amqp", "amqps"):
        return url
    user, password = settings.default_user, settings.default_password
    login = "guest:guest" if (user, password) == ("guest", "guest") else quote(user, safe="")
    scheme, _, address = url.partition("://")
    vhost = "" if settings.default_vhost == "/" else quote(settings.default_vhost, safe="")
    return f"{scheme}://{login}@{address.rstrip('/')}/{vhost}"
