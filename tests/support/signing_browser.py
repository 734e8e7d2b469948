"""The requests that the management UI sends for a login with single sign-on, with the cookies of one browser."""

from __future__ import annotations

import json
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.support.http_api import HttpApi
from tests.support.identity_provider import Provider

START, COMPLETE = "/api/login/oidc/start", "/api/login/oidc"
Answer = tuple[int, Any]


class SigningBrowser:
    def __init__(self, url: str, *, origin: str | None = None, path: str = "/") -> None:
        """``origin``: of the management UI; its host is that of all requests."""
        self.api = HttpApi(url, None)
        origin = origin or url
        page = {"X-Requested-With": "leveret", "X-Leveret-Path": path, "Host": urlsplit(origin).netloc}
        self.api.headers = {"Origin": origin, **page}
        self.cookies: dict[str, str] = {}
        self.attributes: dict[str, dict[str, str]] = {}  # of each cookie

    def post(self, path: str, value: object) -> Answer:
        headers = dict(self.api.headers)
        if self.cookies:
            self.api.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        try:
            response, body = self.api.send("POST", path, json.dumps(value).encode())
        finally:
            self.api.headers = headers
        for line in response.headers.get_all("set-cookie", []):
            for name, cookie in SimpleCookie(line).items():
                self.attributes[name] = {key: value for key, value in cookie.items() if value != ""}
                self.cookies.pop(name, None)
                if cookie.value:
                    self.cookies[name] = cookie.value
        return response.status, json.loads(body)

    def start(self) -> dict[str, str]:
        """The parameters with which the browser goes to the provider."""
        status, answer = self.post(START, {})
        assert status == 200, answer
        return parameters_of(answer["location"])

    def go(self, provider: Provider) -> dict[str, str]:
        """To the provider and back: the parameters with which the browser returns."""
        return parameters_of(provider.log_in(self.start()))

    def sign_in(self, provider: Provider) -> Answer:
        return self.post(COMPLETE, self.go(provider))

    @property
    def user(self) -> Any:
        """The user of the session, None without one."""
        api = HttpApi(f"http://{self.api.host}:{self.api.port}", None)
        api.headers = {"Host": self.api.headers["Host"]}
        api.headers["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return api.get("/api/login")[1]


def parameters_of(address: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(address).query).items()}
