"""The settings of single sign-on."""

from __future__ import annotations

import pytest

from leveret.config_sources import load_settings
from leveret.errors import ConfigError


@pytest.mark.parametrize(
    "issuer",
    [
        "http://id.example",
        "http://localhost.id.example",
        "id.example",
        "https://",
        "https://a:b@id.example",
        "https://id.example?x",
        "https://id.example#x",
        "https://id.example:port",
        "https://id.example/\r\nx",
        "file:///etc/passwd",
        1,
    ],
)
def test_an_issuer_needs_https_or_this_machine(issuer: object) -> None:
    with pytest.raises(ConfigError, match=r"oidc_issuer = .* cannot be used; accepted: a URL with https"):
        load_settings(None, {}, {"oidc_issuer": issuer, "oidc_client_id": "x"})


@pytest.mark.parametrize(
    "issuer", ["https://id.example/realms/x", "https://id.example/", "http://127.0.0.1:8080", "http://[::1]/x"]
)
def test_an_issuer_is_kept_as_it_is(issuer: str) -> None:
    assert load_settings(None, {}, {"oidc_issuer": issuer, "oidc_client_id": "x"}).oidc_issuer == issuer


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"oidc_issuer": "https://id.example"}, "oidc_issuer = 'https://id.example' needs oidc_client_id too"),
        ({"oidc_client_id": "x"}, "oidc_client_id = 'x' needs oidc_issuer too"),
        ({"oidc_client_secret": "hunter2"}, "^oidc_client_secret needs oidc_issuer too: give --oidc-issuer"),
    ],
)
def test_incomplete_settings_of_single_sign_on_are_refused(given: dict[str, str], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected) as caught:
        load_settings(None, {f"LEVERET_{name.upper()}": value for name, value in given.items()}, {})
    assert "hunter2" not in str(caught.value)
