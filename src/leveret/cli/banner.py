"""What the operator sees once the broker listens: where it is, what to try, how to stop it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from urllib.parse import quote

from leveret.config import Settings


def banner(
    settings: Settings, endpoints: Mapping[str, str], version: str, user: str | None = None, made_up: str = ""
) -> str:
    """``user`` is whom the URLs name, nobody if empty; ``made_up`` the administrator whose password was made up."""
    user = settings.default_user if user is None else user
    places = {name: _url(name, url, settings, user) for name, url in endpoints.items()}
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
    if made_up:
        lines += ["", f"  Change the password of {made_up}:", *_change_password(made_up, endpoints)]
    lines += ["", "  Stop it with Ctrl-C.", ""]
    return "\n".join(lines) + "\n"


def _first_message(url: str) -> list[str]:
    return [
        f'    import pika; channel = pika.BlockingConnection(pika.URLParameters("{url}")).channel()',
        '    channel.queue_declare("hello"); channel.basic_publish("", "hello", b"Hello"); channel.basic_get("hello")',
    ]


def first_login(user: str, password: str) -> str:
    """Shown before the banner, and never again."""
    return f"""\
This broker is open to a network and was given no default_password, so it has made an administrator.
This is shown only now:

  user      {user}
  password  {password}

"""


def _change_password(user: str, endpoints: Mapping[str, str]) -> list[str]:
    url = endpoints.get("http") or endpoints.get("https")
    if url is None:
        return [
            f'    give it another in a [[bootstrap.users]] table of the config file (name = "{user}"), then restart'
        ]
    body = '{"password": "THE NEW ONE", "tags": "administrator"}'
    return [
        f"    curl -u {shlex.quote(user)} -X PUT {url}/api/users/{quote(user, safe='')} \\",
        f"      -H 'content-type: application/json' -d '{body}'",
    ]


def _url(name: str, url: str, settings: Settings, user: str) -> str:
    """The URL a client can use as it is. The well-known guest password is shown; any other is a secret."""
    if name not in ("amqp", "amqps"):
        return url
    login = "guest:guest" if (user, settings.default_password) == ("guest", "guest") else quote(user, safe="")
    scheme, _, address = url.partition("://")
    vhost = "" if settings.default_vhost == "/" else quote(settings.default_vhost, safe="")
    return f"{scheme}://{login}{'@' if login else ''}{address.rstrip('/')}/{vhost}"
