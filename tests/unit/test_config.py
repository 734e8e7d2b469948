from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret import setting_kinds
from leveret.bootstrap import BootstrapPermission, BootstrapTopicPermission, BootstrapUser, BootstrapVhost
from leveret.config import DECLARED, Settings
from leveret.config_sources import load_settings, load_with_sources
from leveret.errors import ConfigError
from leveret.machine import short_hostname
from leveret.setting_kinds import MemoryWatermark


def written(folder: Path, text: str) -> Path:
    path = folder / "leveret.toml"
    path.write_text(text, encoding="utf-8")
    return path


def loaded_from(folder: Path, text: str) -> Settings:
    return load_settings(written(folder, text), {}, {})


def test_without_any_source_everything_has_the_documented_default() -> None:
    settings = load_settings(None, {}, {})
    assert settings.host == ("127.0.0.1",)
    assert (settings.amqp_port, settings.amqps_port) == (5672, 5671)
    assert (settings.http_port, settings.https_port, settings.stomp_port) == (15672, 15671, None)
    assert (settings.frame_max, settings.channel_max, settings.heartbeat) == (131072, 2047, 60)
    assert settings.max_message_size == 16 << 20
    assert settings.memory_high_watermark.of(1000) == 400
    assert settings.loopback_users == {"guest"}
    assert settings.node_name == f"leveret@{short_hostname()}"
    assert settings.data_dir == Path("leveret-data")
    assert Settings().data_dir is None


def test_flags_win_over_environment_over_file_over_default(tmp_path: Path) -> None:
    path = written(tmp_path, "amqp_port = 1\nhttp_port = 1\nstomp_port = 1")
    environ = {"LEVERET_AMQP_PORT": "2", "LEVERET_HTTP_PORT": "2"}
    loaded = load_with_sources(path, environ, {"amqp_port": "3", "http_port": None})
    ports = loaded.settings.amqp_port, loaded.settings.http_port, loaded.settings.stomp_port, loaded.settings.amqps_port
    assert ports == (3, 2, 1, 5671)
    sources = [loaded.sources[name] for name in ("amqp_port", "http_port", "stomp_port", "amqps_port")]
    assert sources == ["--amqp-port", "LEVERET_HTTP_PORT", str(path), "default"]


def test_the_file_may_be_named_by_the_environment_and_settings_may_stand_in_sections(tmp_path: Path) -> None:
    path = written(tmp_path, '[listeners]\nhost = ["::1", "localhost"]\nhttp_port = "off"\n[limits]\nheartbeat = 5')
    settings = load_settings(None, {"LEVERET_CONFIG": str(path)}, {})
    assert settings.host == ("::1", "localhost")
    assert settings.http_port is None
    assert settings.heartbeat == 5


def test_an_empty_variable_counts_as_unset() -> None:
    assert load_settings(None, {"LEVERET_TLS_CERT": "", "LEVERET_AMQP_PORT": ""}, {}).tls_cert is None


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("amqp_port", "0", 0), ("amqp_port", "OFF", None), ("amqp_port", False, None),
        ("host", "127.0.0.1, [::1]", ("127.0.0.1", "::1")), ("host", "*", ("0.0.0.0", "::")),
        ("host", "fe80::1%eth0", ("fe80::1%eth0",)),
        ("max_message_size", "1MiB", 1 << 20), ("max_message_size", "1 mb", 10**6),
        ("max_message_size", 512 << 20, 512 << 20),
        ("handshake_timeout", "500ms", 0.5), ("handshake_timeout", "1m", 60.0), ("handshake_timeout", 2, 2.0),
        ("memory_high_watermark", "25%", MemoryWatermark(percent=25.0)),
        ("memory_high_watermark", "1GiB", MemoryWatermark(size=1 << 30)),
        ("connection_max", "unlimited", None), ("connection_max", "0", 0),
        ("loopback_users", "none", frozenset()), ("loopback_users", ["a", "b"], frozenset("ab")),
        ("log_level", "DEBUG", "debug"), ("data_dir", "/x", Path("/x")),
        ("behind_proxy", "on", True), ("behind_proxy", True, True), ("behind_proxy", "off", False),
        ("trusted_proxies", "10.0.0.5, fd00::/8", ("10.0.0.5", "fd00::/8")), ("trusted_proxies", [], ()),
        ("http_path_prefix", "/mq/", "/mq"), ("http_path_prefix", "none", ""), ("http_path_prefix", "/a/b", "/a/b"),
        ("proxy_protocol", False, frozenset()), ("proxy_protocol", "off", frozenset()),
    ],
)  # fmt: skip
def test_a_value_is_understood(name: str, given: object, expected: object) -> None:
    assert getattr(load_settings(None, {}, {name: given}), name) == expected


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("amqp_port", "65536"), ("amqp_port", "-1"), ("amqp_port", True), ("amqp_port", 1.5), ("amqp_port", "amqp"),
        ("host", ""), ("host", "localhost:5672"), ("host", []), ("host", "none"), ("host", [1]),
        ("max_message_size", "513MiB"), ("max_message_size", "0"), ("max_message_size", "5 potatoes"),
        ("max_message_size", "inf"), ("max_message_size", []),
        ("handshake_timeout", "0"), ("handshake_timeout", "nan"), ("handshake_timeout", "soon"),
        ("handshake_timeout", True),
        ("memory_high_watermark", "0%"), ("memory_high_watermark", "101%"),
        ("memory_high_watermark", "1"), ("memory_high_watermark", "x%"),
        ("channel_max", "0"), ("channel_max", "65536"), ("channel_max", "2047.0"), ("connection_max", "-1"),
        ("log_format", "xml"), ("log_format", 1), ("node_name", " "), ("loopback_users", 3), ("default_password", ""),
        ("behind_proxy", "nginx"), ("behind_proxy", 1), ("proxy_protocol", "amqp,smtp"), ("proxy_protocol", 1),
        ("http_path_prefix", "mq"), ("http_path_prefix", "/a b"), ("http_path_prefix", "/a//b"),
        ("trusted_proxies", "10.0.0.5/8"), ("trusted_proxies", "proxy.example"), ("trusted_proxies", True),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_is_named_with_its_source_and_what_is_accepted(name: str, given: object) -> None:
    with pytest.raises(ConfigError) as caught:
        load_settings(None, {}, {name: given})
    declared = next(item for item in DECLARED if item.name == name)
    text = str(caught.value)
    assert text.startswith(f"{name} = ")
    assert f"(from {declared.flag or 'argument'})" in text
    assert declared.kind.accepts in text
    assert declared.secret or repr(given) in text
    assert "\n" not in text


def test_a_bad_secret_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"default_password = \*\*\*") as caught:
        loaded_from(tmp_path, "default_password = 12345")
    assert "12345" not in str(caught.value)


def test_a_password_is_never_a_flag_and_never_in_a_repr() -> None:
    assert [item.name for item in DECLARED if item.flag is None] == [
        "default_password",
        "oidc_client_secret",
        "cluster_password",
    ]
    settings = load_settings(None, {"LEVERET_DEFAULT_PASSWORD": " hunter2 "}, {})
    assert settings.default_password == " hunter2 "
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("amqp_prot = 1", "amqp_port"), ("[listeners]\namqp_prot = 1", "amqp_port"), ("[listener]\nx = 1", "listeners"),
        ("[logs]\namqp_port = 1", r"\[listeners\]"), ("[bootstrap]\nuser = []", "users"),
        ("[[bootstrap.users]]\nnam = 'x'", "name"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_an_error_that_names_key_file_and_nearest_name(
    tmp_path: Path, text: str, nearest: str
) -> None:
    with pytest.raises(ConfigError, match=rf"unknown setting .*leveret\.toml.*{nearest}"):
        loaded_from(tmp_path, text)


RENAMED = {
    "memory_mark": "memory_high_watermark",
    "disk_mark": "disk_free_limit",
    "write_high_mark": "write_high_watermark",
    "max_message_bytes": "max_message_size",
    "max_connections": "connection_max",
}


def test_every_old_name_is_listed_here() -> None:
    assert {item.old_name: item.name for item in DECLARED if item.old_name} == RENAMED


@pytest.mark.parametrize(("old_name", "name"), RENAMED.items())
def test_an_old_name_is_accepted_from_every_source_with_a_notice(tmp_path: Path, old_name: str, name: str) -> None:
    variable, flag = f"LEVERET_{old_name.upper()}", "--" + old_name.replace("_", "-")
    section = next(item.section for item in DECLARED if item.name == name)
    path = written(tmp_path, f"[{section}]\n{old_name} = 2000000")
    expected = getattr(load_settings(None, {}, {name: 2_000_000}), name)
    for loaded, source in (
        (load_with_sources(path, {}, {}), str(path)),
        (load_with_sources(None, {variable: "2000000"}, {}), variable),
        (load_with_sources(None, {}, {old_name: "2000000"}), flag),
        (load_with_sources(None, {}, {old_name: "2000000", name: "2000000"}), flag),
    ):
        assert getattr(loaded.settings, name) == expected
        assert loaded.notices == (f"the setting {old_name} ({source}) is now {name}",)
    assert load_with_sources(None, {}, {name: 2_000_000}).notices == ()


def test_a_higher_source_wins_whichever_name_it_uses(tmp_path: Path) -> None:
    path = written(tmp_path, "max_message_size = 100")
    assert load_settings(path, {"LEVERET_MAX_MESSAGE_BYTES": "200"}, {}).max_message_size == 200
    assert (
        load_settings(path, {"LEVERET_MAX_MESSAGE_BYTES": "200"}, {"max_message_size": "300"}).max_message_size == 300
    )


def test_different_values_under_both_names_are_an_error(tmp_path: Path) -> None:
    told = "max_message_size and its old name max_message_bytes have different values"
    with pytest.raises(ConfigError, match=rf"{told} \(.*leveret\.toml\): give max_message_size only"):
        loaded_from(tmp_path, "max_message_size = 100\nmax_message_bytes = 200")
    with pytest.raises(ConfigError, match=told):
        Settings(max_message_size=100, max_message_bytes=200)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match=r"max_message_bytes = 'x' \(from --max-message-bytes\)"):
        load_settings(None, {}, {"max_message_bytes": "x"})


@pytest.mark.parametrize(("old_name", "name"), RENAMED.items())
def test_settings_accept_old_names_as_keyword_and_attribute(old_name: str, name: str) -> None:
    value = getattr(load_settings(None, {}, {name: 2_000_000}), name)
    told = f"the setting {old_name} is now {name}"
    with pytest.warns(DeprecationWarning, match=told):
        settings = Settings(**{old_name: value})
    with pytest.warns(DeprecationWarning, match=told):
        assert getattr(settings, old_name) == getattr(settings, name) == value
    with pytest.warns(DeprecationWarning, match=told):
        assert replace(Settings(), **{old_name: value}) == settings
    with pytest.raises(AttributeError, match="has no attribute 'memory'"):
        _ = Settings().memory  # type: ignore[attr-defined]


def test_the_classes_of_values_have_their_old_names_too() -> None:
    with pytest.warns(DeprecationWarning, match="MemoryMark is now MemoryWatermark"):
        assert setting_kinds.MemoryMark is MemoryWatermark  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        ("vm_memory_high_watermark.relative = 0.6", "memory_high_watermark"),
        ("listeners.tcp.default = 5672", "amqp_port"),
        ("ssl_options.certfile = 'x.pem'", "tls_cert"),
        ("default_pass = 'x'", "default_password"),
    ],
)
def test_a_key_of_rabbitmq_conf_is_an_error_that_names_our_setting(tmp_path: Path, text: str, ours: str) -> None:
    with pytest.raises(ConfigError, match=f"RabbitMQ's name, here it is .*{ours}"):
        loaded_from(tmp_path, text)


def test_a_setting_given_twice_in_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="twice"):
        loaded_from(tmp_path, "amqp_port = 1\n[listeners]\namqp_port = 2")


def test_a_file_that_is_missing_or_no_toml_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml cannot be read: No such file"):
        load_settings(tmp_path / "nowhere.toml", {}, {})
    with pytest.raises(ConfigError, match=r"is not TOML: .*line 2"):
        loaded_from(tmp_path, "heartbeat = 1\namqp_port = \n")
    (tmp_path / "latin.toml").write_bytes(b'node_name = "\xe9"')
    with pytest.raises(ConfigError, match="is not TOML"):
        load_settings(tmp_path / "latin.toml", {}, {})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_DATA_HOME": "/xdg", "HOME": "/h"}, "/xdg/leveret"), ({"HOME": "/h"}, "/h/.local/share/leveret"),
        ({"LOCALAPPDATA": "/l"}, "/l/leveret"), ({"HOME": "/h", "LEVERET_DATA_DIR": "~/mine"}, "/h/mine"),
    ],
)  # fmt: skip
def test_data_is_kept_in_the_users_own_place(environ: dict[str, str], expected: str) -> None:
    assert load_settings(None, environ, {}).data_dir == Path(expected)


@pytest.mark.parametrize("name", ["tls_key", "tls_ca"])
def test_tls_files_without_a_certificate_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}.*--tls-cert"):
        load_settings(None, {}, {name: "x.pem"})
    assert load_settings(None, {}, {name: "x.pem", "tls_cert": "c.pem"}).tls_cert == Path("c.pem")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"cluster_user": "leveret"}, "cluster_user = 'leveret' needs cluster_password too.*LEVERET_CLUSTER_PASSWORD"),
        ({"cluster_tls_key": "node.key"}, "cluster_tls_key = 'node.key' needs cluster_tls_cert too"),
        (
            {"cluster_user": "leveret", "cluster_password": "x", "cluster_credentials": "user.creds"},
            "cluster_user and cluster_credentials are both set: remove one of them",
        ),
    ],
)
def test_contradictory_logins_for_the_engine_are_refused(given: dict[str, str], expected: str) -> None:
    environ = {f"LEVERET_{name.upper()}": value for name, value in given.items()}
    with pytest.raises(ConfigError, match=expected):
        load_settings(None, environ, {})


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("on", {"amqp", "amqps", "http", "https", "stomp", "stomps"}),
        (True, {"amqp", "amqps", "http", "https", "stomp", "stomps"}),
        ("AMQP, stomp", {"amqp", "stomp"}),
        (["https"], {"https"}),
    ],
)
def test_the_proxy_protocol_needs_a_list_of_proxies(given: object, expected: set[str]) -> None:
    with pytest.raises(ConfigError, match=r"proxy_protocol = .* needs trusted_proxies"):
        load_settings(None, {}, {"proxy_protocol": given})
    settings = load_settings(None, {}, {"proxy_protocol": given, "trusted_proxies": "10.0.0.5"})
    assert settings.proxy_protocol == expected


def test_revocation_lists_without_authorities_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"tls_crl.*--tls-ca"):
        load_settings(None, {}, {"tls_crl": "x.pem", "tls_cert": "c.pem"})


def test_every_setting_has_its_own_flag_variable_and_help() -> None:
    assert len({item.env for item in DECLARED}) == len(DECLARED)
    assert all(item.help and item.section and item.env.startswith("LEVERET_") for item in DECLARED)


def test_bootstrap_tables_become_values(tmp_path: Path) -> None:
    bootstrap = loaded_from(
        tmp_path,
        """
        [[bootstrap.vhosts]]
        name = "shop"
        max_queues = 10
        [[bootstrap.users]]
        name = "ann"
        password = "secret"
        tags = ["administrator"]
        max_connections = 3
        [[bootstrap.users]]
        name = "bob"
        password_hash = "$argon2id$x"
        tags = "monitoring, policymaker"
        [[bootstrap.permissions]]
        user = "ann"
        vhost = "shop"
        configure = "^a"
        write = ".*"
        read = ".*"
        [[bootstrap.topic_permissions]]
        user = "ann"
        write = "^x"
        """,
    ).bootstrap
    assert bootstrap.vhosts == (BootstrapVhost("shop", max_queues=10),)
    ann, bob = bootstrap.users
    assert ann == BootstrapUser("ann", password="secret", tags=("administrator",), max_connections=3)
    assert set(bob.tags) == {"monitoring", "policymaker"}
    assert bootstrap.permissions == (BootstrapPermission("ann", "shop", "^a", ".*", ".*"),)
    assert bootstrap.topic_permissions == (BootstrapTopicPermission("ann", "/", "amq.topic", "^x", ""),)
    assert "secret" not in repr(bootstrap)
    assert "argon2" not in repr(bootstrap)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("bootstrap = 1", "bootstrap in"),
        ("[bootstrap]\nusers = 1", r"\[\[bootstrap.users\]\]"),
        ("[[bootstrap.users]]\npassword = 'x'", r"users\[0\].*has no name"),
        ("[[bootstrap.users]]\nname = 1", r"users\[0\]\.name = 1"),
        ("[[bootstrap.users]]\nname = 'a'\nmax_channels = -1", "max_channels = -1.*whole number"),
        ("[[bootstrap.users]]\nname = 'a'\nmax_channels = true", "max_channels"),
        ("[[bootstrap.users]]\nname = 'a'\ntags = 1", "tags = 1"),
        ("[[bootstrap.users]]\nname = 'a'\npassword_hash = 'sha'", r"password_hash = \*\*\*.*argon2"),
        ("[[bootstrap.users]]\nname = 'a'\npassword_hash = '$argon2id$'\npassword = 'x'", "'a'.*both"),
        ("[[bootstrap.permissions]]\nuser = 'a'\nread = '['", r"permissions\[0\]\.read = '\['.*regular expression"),
    ],
)
def test_a_bootstrap_mistake_is_named(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        loaded_from(tmp_path, text)


@given(st.sampled_from([item.env for item in DECLARED]), st.text(st.characters(exclude_characters="\0"), max_size=12))
def test_any_text_in_a_variable_is_a_value_or_a_config_error(name: str, text: str) -> None:
    try:
        load_settings(None, {name: text, "LEVERET_TLS_CERT": text, "LEVERET_TLS_CA": text}, {})
    except ConfigError as refused:
        assert "LEVERET_" in str(refused)  # noqa: PT017
