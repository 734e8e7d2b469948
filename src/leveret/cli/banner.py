"""The text that `leveret serve` prints once the broker listens: addresses, a first example, how to stop it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from urllib.parse import quote

from leveret.config import Settings

NO_CELL: Mapping[str, str] = {}


def banner(
    settings: Settings,
    endpoints: Mapping[str, str],
    version: str,
    user: str | None = None,
    made_up: str = "",
    *,
    cell: Mapping[str, str] = NO_CELL,
) -> str:
    """``user``: the user name in the URLs, none if empty; ``made_up``: the administrator with a generated password;
    ``cell``: lines about the cell of this node."""
    user = settings.default_user if user is None else user
    places = {name: _url(name, url, settings, user) for name, url in endpoints.items()}
    places |= cell
    if settings.data_dir is None:
        places["data"] = "in memory only: all data is lost on restart"
    else:
        note = "" if settings.durability == "fsync" else " (durability os: a power failure can lose confirmed messages)"
        places["data"] = f"{settings.data_dir.absolute()}{note}"
    width = max(map(len, places))
    lines = [f"Leveret {version} is ready as {settings.node_name}", ""]
    lines += [f"  {name:{width}}  {place}" for name, place in places.items()]
    if "amqp" in places and (user or not cell):  # a standby has no users of its own to name
        lines += ["", *_first_message(places["amqp"])]
    if made_up:
        lines += ["", f"  Change the password of {made_up!r}:", *_change_password(made_up, endpoints)]
    lines += ["", "  Press Ctrl-C to stop.", ""]
    return "\n".join(lines) + "\n"


def ready_facts(
    settings: Settings,
    endpoints: Mapping[str, str],
    version: str,
    recovered: Mapping[str, object],
    cell: Mapping[str, str] = NO_CELL,
) -> dict[str, object]:
    """The fields of the log line that has the facts of the banner."""
    facts: dict[str, object] = {"node": settings.node_name, "version": version, **endpoints, **cell}
    facts["data"] = "in memory only" if settings.data_dir is None else str(settings.data_dir.absolute())
    return facts | {f"recovered_{name}": value for name, value in recovered.items()}


def _first_message(url: str) -> list[str]:
    login, at, _ = url.partition("@")
    has_password = not at or login.count(":") == 2
    hint = "" if has_password else " (replace PASSWORD)"
    url = url if has_password else url.replace("@", ":PASSWORD@", 1)
    return [
        f"  Try it{hint}: pip install pika, then in Python:",
        f'    import pika; channel = pika.BlockingConnection(pika.URLParameters("{url}")).channel()',
        '    channel.queue_declare("hello"); channel.basic_publish("", "hello", b"Hello"); channel.basic_get("hello")',
    ]


def first_login(user: str, password: str) -> str:
    """Printed before the banner of the first start only."""
    return f"""\
This broker listens on a network address and default_password is not set: an administrator was created.
These credentials are shown only once:

  user      {user}
  password  {password}

"""


def _change_password(user: str, endpoints: Mapping[str, str]) -> list[str]:
    url = endpoints.get("http") or endpoints.get("https")
    if url is None:
        return [
            f'    set it in a [[bootstrap.users]] table of the config file (name = "{user}"), then restart the broker'
        ]
    name = shlex.quote(user)
    return [f"    leveret users password {name} --username {name} --url {url}"]


def _url(name: str, url: str, settings: Settings, user: str) -> str:
    """A URL to copy into a client. It contains the password only for guest, whose default password is public."""
    if name not in ("amqp", "amqps"):
        return url
    login = "guest:guest" if (user, settings.default_password) == ("guest", "guest") else quote(user, safe="")
    scheme, _, address = url.partition("://")
    vhost = "" if settings.default_vhost == "/" else quote(settings.default_vhost, safe="")
    return f"{scheme}://{login}{'@' if login else ''}{address.rstrip('/')}/{vhost}"
