"""Translates rabbitmq.conf into Leveret's TOML file, for ``leveret config import``.

RULES is the table of docs/guide/migrate.md: tests/test_migrate_page.py checks that they agree. Keys that have no
counterpart become comments, each with the reason, so that none is lost.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from leveret.config import BY_NAME
from leveret.errors import ConfigError

Values = dict[str, object]  # settings

NOT_NEEDED, NOT_SUPPORTED = "not needed", "not supported"
# As in conf_parse.peg of cuttlefish: # starts a comment, except in a value in single quotes.
LINE = re.compile(r"\s*([^=#\s]+)\s*=\s*(?:'([^']*)'|(?!'[^']*')([^#\s][^#]*?))\s*(?:#.*)?")
TRUE = ("true", "on")
MILLISECONDS = 1000
WITHOUT_LIMIT = "infinity"
LOCATORS = {"client-local": "client-local"} | dict.fromkeys(("balanced", "min-masters", "random"), "balanced")
SECRET = re.compile(r"pass|secret|token|cookie", re.IGNORECASE)  # in the name of a key
URL_PASSWORD = re.compile(r"(://[^/\s:@]*:)\S*@")
LEVELS = {"debug": "debug", "info": "info", "notice": "info", "warning": "warning"}  # all others: error


class Rule(NamedTuple):
    """``keys``: patterns, with * for any text. ``translate`` makes settings of a key and its value."""

    keys: tuple[str, ...]
    translate: Callable[[str, str], Values] | str  # a text: the reason why it has no counterpart


class Untranslatable(Exception):
    """The value has no counterpart; the text is the reason."""


def same(*names: str) -> Callable[[str, str], Values]:
    """The setting with the name of the key, or with this name, and the same value."""
    return lambda key, value: {names[0] if names else key: _number_or_text(value)}


def _number_or_text(value: str) -> object:
    return int(value) if value.isascii() and value.isdecimal() else value


def port(setting: str) -> Callable[[str, str], Values]:
    """A port, or an address and a port."""

    def translate(key: str, value: str) -> Values:
        if value == "none":
            return {setting: "off"}
        address, colon, number = value.rpartition(":")
        if not number.isdecimal():
            raise Untranslatable("a port is expected")
        if not colon:
            return {setting: int(number), "host": ["*"]}
        return {setting: int(number), "host": [address.strip("[]")]}

    return translate


def only_port(setting: str) -> Callable[[str, str], Values]:
    """The port of a listener whose address is another key."""
    return lambda key, value: {setting: int(value)}


def milliseconds(setting: str) -> Callable[[str, str], Values]:
    return lambda key, value: {setting: int(value) / MILLISECONDS}


def size(setting: str) -> Callable[[str, str], Values]:
    return lambda key, value: {setting: _number_or_text(value)}


def percent(setting: str) -> Callable[[str, str], Values]:
    return lambda key, value: {setting: f"{float(value) * 100:g}%"}


def at_most(setting: str) -> Callable[[str, str], Values]:
    return lambda key, value: {setting: "unlimited" if value == WITHOUT_LIMIT else int(value)}


def switch(setting: str, text: str) -> Callable[[str, str], Values]:
    return lambda key, value: {setting: text} if value in TRUE else {}


def loopback_users(key: str, value: str) -> Values:
    user = key.partition(".")[2]
    if not user:
        if value != "none":
            raise Untranslatable("write it as loopback_users.NAME = true, or none")
        return {"loopback_users": "none"}
    return {"loopback_users": [user] if value in TRUE else "none"}


def level(key: str, value: str) -> Values:
    return {"log_level": LEVELS.get(value, "error")}


def locator(key: str, value: str) -> Values:
    if value not in LOCATORS:
        raise Untranslatable(f"{', '.join(LOCATORS)} are expected")
    return {"queue_leader_locator": LOCATORS[value]}


def json_format(key: str, value: str) -> Values:
    return {"log_format": "json"} if value == "json" else {}


LOG_GOES = f"{NOT_NEEDED}: the log goes to standard error"
BOOTSTRAP = (
    "users, virtual hosts and permissions: [[bootstrap...]] tables; else 'leveret definitions import FILE', once"
)

RULES = (
    Rule(("listeners.tcp", "listeners.tcp.*"), port("amqp_port")),
    Rule(("listeners.ssl", "listeners.ssl.*"), port("amqps_port")),
    Rule(("handshake_timeout", "ssl_handshake_timeout"), milliseconds("handshake_timeout")),
    Rule(
        ("num_acceptors.*", "tcp_listen_options.*", "socket_writer.gc_threshold"),
        f"{NOT_NEEDED}; write_high_watermark replaces tcp_listen_options.high_watermark",
    ),
    Rule(("reverse_dns_lookups",), NOT_SUPPORTED),
    Rule(("proxy_protocol",), switch("proxy_protocol", "on")),
    Rule(("ssl_options.certfile",), same("tls_cert")),
    Rule(("ssl_options.keyfile",), same("tls_key")),
    Rule(("ssl_options.cacertfile",), same("tls_ca")),
    Rule(("ssl_options.password",), f"{NOT_SUPPORTED}: the key must not be encrypted"),
    Rule(
        ("ssl_options.verify", "ssl_options.depth"),
        f"{NOT_NEEDED}: with tls_ca, a client certificate is verified if the client sends one",
    ),
    Rule(("ssl_options.fail_if_no_peer_cert",), f"{NOT_SUPPORTED}: clients without a certificate need a password"),
    Rule(
        (
            *("ssl_options.versions.*", "ssl_options.ciphers.*", "ssl_options.honor_cipher_order"),
            *("ssl_options.honor_ecc_order", "ssl_options.dhfile", "ssl_options.psk_identity"),
        ),
        f"{NOT_SUPPORTED}: TLS 1.2 and 1.3 with modern ciphers",
    ),
    Rule(
        (
            *("ssl_options.client_renegotiation", "ssl_options.secure_renegotiate", "ssl_options.reuse_sessions"),
            *("ssl_options.log_alert", "ssl_options.bypass_pem_cache"),
        ),
        NOT_NEEDED,
    ),
    Rule(("ssl_options.cert", "ssl_options.cacerts.*", "ssl_options.key.*"), f"{NOT_SUPPORTED}: name files"),
    Rule(("ssl_options.crl_check",), "set tls_crl to a file of revocation lists"),
    Rule(("default_user", "default_vhost"), same()),
    Rule(("default_pass",), same("default_password")),
    Rule(
        ("default_user_tags.*", "default_permissions.*"),
        f"{NOT_SUPPORTED}: the first user is an administrator with all permissions in the default virtual host",
    ),
    Rule(("default_users.*",), "use [[bootstrap.users]] and [[bootstrap.permissions]]"),
    Rule(("loopback_users", "loopback_users.*"), loopback_users),
    Rule(("auth_mechanisms.*",), f"{NOT_NEEDED}: PLAIN, AMQPLAIN, and EXTERNAL for client certificates"),
    Rule(
        ("ssl_cert_login_from", "ssl_cert_login_san_type", "ssl_cert_login_san_index"),
        f"{NOT_SUPPORTED}: the common name, or the whole subject if there is none",
    ),
    Rule(("auth_backends.*", "auth_ldap.*", "auth_oauth2.*", "auth_http.*", "auth_cache.*"), NOT_SUPPORTED),
    Rule(("password_hashing_module",), f"{NOT_NEEDED}: argon2id"),
    Rule(("credential_validator.*",), NOT_SUPPORTED),
    Rule(("load_definitions", "management.load_definitions", "definitions.*"), BOOTSTRAP),
    Rule(("default_policies.operator.*",), "run 'leveret policies set NAME PATTERN DEFINITION --operator'"),
    Rule(("default_limits.vhosts.*",), "use max_queues and max_connections of [[bootstrap.vhosts]]"),
    Rule(("heartbeat", "frame_max", "channel_max"), same()),
    Rule(("max_message_size",), same()),
    Rule(("connection_max",), at_most("connection_max")),
    Rule(
        ("channel_max_per_node", "consumer_max_per_channel", "vhost_max"),
        f"{NOT_SUPPORTED}; max-channels of a user limits its channels",
    ),
    Rule(("cluster_queue_limit",), f"{NOT_SUPPORTED}; max-queues of a virtual host limits its queues"),
    Rule(("ranch_connection_max",), f"{NOT_NEEDED}: connection_max"),
    Rule(("runtime_parameters.limits.*",), NOT_SUPPORTED),
    Rule(("initial_frame_max",), f"{NOT_NEEDED}: 8,192 bytes"),
    Rule(("consumer_timeout",), "no timeout by default; set x-consumer-timeout, or consumer-timeout in a policy"),
    Rule(("vm_memory_high_watermark.relative",), percent("memory_high_watermark")),
    Rule(("vm_memory_high_watermark.absolute",), size("memory_high_watermark")),
    Rule(("vm_memory_high_watermark_paging_ratio",), f"{NOT_NEEDED}: queue_memory bounds the memory of each queue"),
    Rule(
        (*("vm_memory_calculation_strategy", "total_memory_available_override_value", "memory_monitor_interval"),),
        f"{NOT_NEEDED}: give memory_high_watermark as a size",
    ),
    Rule(("disk_free_limit.absolute",), size("disk_free_limit")),
    Rule(("disk_free_limit.relative",), "set disk_free_limit as a size, or in percent of the disk (not of the memory)"),
    Rule(
        ("queue_index_embed_msgs_below", "message_store_shutdown_timeout", "classic_queue.default_version"),
        NOT_NEEDED,
    ),
    Rule(
        ("default_queue_type",),
        f"{NOT_SUPPORTED}: set the default queue type of each virtual host over HTTP or in the management UI",
    ),
    Rule(("queue_leader_locator", "queue_master_locator"), locator),
    Rule(
        ("raft.*", "quorum_queue.*", "mirroring_sync_batch_size", "mirroring_sync_max_throughput"),
        f"{NOT_NEEDED}: see the guide on high availability",
    ),
    Rule(("message_interceptors.incoming.*",), NOT_SUPPORTED),
    Rule(("cluster_name",), "PUT /api/cluster-name"),
    Rule(
        (
            *("cluster_partition_handling", "cluster_partition_handling.*", "cluster_formation.*"),
            *("cluster_keepalive_interval", "net_ticktime", "distribution.listener.*", "delegate_count"),
            *("metadata_store.khepri.*", "mnesia_table_loading_retry_timeout", "mnesia_table_loading_retry_limit"),
        ),
        f"{NOT_NEEDED}: cluster, cell and cluster_port, see the guide on high availability",
    ),
    Rule(("log.console.level", "log.file.level", "log.default.level"), level),
    Rule(("log.console.formatter", "log.file.formatter"), json_format),
    Rule(("log.console.formatter.*", "log.console.use_colors"), NOT_SUPPORTED),
    Rule(
        (
            *("log.console", "log.console.stdio", "log.dir", "log.file", "log.file.rotation.*", "log.journald.*"),
            "log.syslog.*",
        ),
        LOG_GOES,
    ),
    Rule(("log.*.level", "log.exchange", "log.exchange.*"), NOT_SUPPORTED),
    Rule(("management.tcp.port", "management.listener.port"), only_port("http_port")),
    Rule(("management.tcp.ip", "management.listener.*"), "set host: all listeners have the same addresses"),
    Rule(("management.ssl.port",), only_port("https_port")),
    Rule(("management.ssl.*",), "https_port has the certificate of tls_cert and tls_key"),
    Rule(("management.hsts.policy",), "set hsts_max_age"),
    Rule(("management.path_prefix",), same("http_path_prefix")),
    Rule(
        (
            *("management.csp.policy", "management.headers.*", "management.login_session_timeout"),
            "management.http.max_body_size",
        ),
        f"{NOT_SUPPORTED}: fixed",
    ),
    Rule(("management.oauth_*",), "set oidc_issuer and oidc_client_id"),
    Rule(("management.tcp.*",), f"{NOT_NEEDED}; handshake_timeout bounds the head of a request"),
    Rule(
        (
            *("management.cors.*", "management.http_log_dir"),
            *("management.disable_basic_auth", "management.restrictions.*"),
        ),
        NOT_SUPPORTED,
    ),
    Rule(
        (
            *("management.rates_mode", "management.sample_retention_policies.*", "management.disable_stats"),
            *("management.enable_queue_totals", "management.db_cache_multiplier", "collect_statistics"),
            "collect_statistics_interval",
        ),
        NOT_NEEDED,
    ),
    Rule(("prometheus.return_per_object_metrics",), "read /metrics/per-object of http_port"),
    Rule(("prometheus.path", "prometheus.ssl.*"), f"{NOT_SUPPORTED}: /metrics; https_port has it over TLS"),
    Rule(("prometheus.tcp.*",), "the metrics are at /metrics of http_port"),
    Rule(("stomp.listeners.tcp", "stomp.listeners.tcp.*"), port("stomp_port")),
    Rule(("stomp.listeners.ssl", "stomp.listeners.ssl.*"), port("stomps_port")),
    Rule(
        ("stomp.default_user", "stomp.default_pass", "stomp.implicit_connect"),
        f"{NOT_SUPPORTED}: send login and passcode",
    ),
    Rule(("stomp.ssl_cert_login",), f"{NOT_NEEDED}: a client certificate is sufficient"),
    Rule(
        ("stomp.default_vhost", "stomp.default_topic_exchange", "stomp.default_nack_requeue"),
        f"{NOT_SUPPORTED}: / without the header host, amq.topic, and requeue unless the NACK has requeue:false",
    ),
    Rule(("stomp.proxy_protocol",), switch("proxy_protocol", "stomp,stomps")),
    Rule(("stomp.login_timeout", "stomp.max_frame_size"), "set handshake_timeout, max_message_size"),
    Rule(
        (
            *("stomp.tcp_listen_options.*", "stomp.num_acceptors.*", "stomp.max_connections"),
            "stomp.hide_server_info",
        ),
        NOT_NEEDED,
    ),
    Rule(("web_stomp.*",), "ws://HOST:15672/ws, on by default (http_streams)"),
    Rule(("mqtt.*", "web_mqtt.*", "stream.*", "amqp1_0.*"), NOT_SUPPORTED),
    Rule(("product.name", "product.version", "motd_file"), NOT_SUPPORTED),
    Rule(
        (
            *("deprecated_features.permit.*", "background_gc_enabled", "background_gc_target_interval"),
            *("default_worker_pool_size", "vhost_restart_strategy", "sysmon_handler.*", "erlang.*", "hipe_compile"),
        ),
        NOT_NEEDED,
    ),
)


def rule_of(key: str) -> Rule | None:
    """The first rule that has the key; a pattern without * before one with it."""
    exact = (rule for rule in RULES if key in rule.keys)
    near = (rule for rule in RULES if any(fnmatchcase(key, pattern) for pattern in rule.keys))
    return next(exact, None) or next(near, None)


class Translated(NamedTuple):
    settings: Values
    remarks: list[str]  # a line for each key that was not translated

    def as_toml(self, source: str) -> str:
        lines = [f"# translated from {source} by 'leveret config import'"]
        lines += [f"{name} = {json.dumps(value, ensure_ascii=False)}" for name, value in self.settings.items()]
        if self.remarks:
            lines += ["", "# Not translated:", *(f"# {remark}" for remark in self.remarks)]
        return "\n".join(lines) + "\n"


def translated(text: str, source: str) -> Translated:
    """ConfigError if a line is not ``key = value``."""
    result = Translated({}, [])
    for number, key, value in _entries(text, source):
        rule = rule_of(key)
        if rule is None:
            result.remarks.append(f"{key} = {_shown(key, value)}: unknown key (line {number})")
        elif isinstance(rule.translate, str):
            result.remarks.append(f"{key} = {_shown(key, value)}: {rule.translate}")
        else:
            _add(result, rule.translate, key, value)
    if "host" not in result.settings:
        result.remarks.append('no listener: RabbitMQ listens on all addresses; to do the same, set host = "*"')
    return result


def _entries(text: str, source: str) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = LINE.fullmatch(line)
        if found is None:
            key, equals, value = line.strip().partition("=")
            shown = key + equals + _shown(key, value)
            raise ConfigError(f"{source}, line {number}: {shown!r} is not 'key = value', as in rabbitmq.conf")
        yield number, found[1], found[2] if found[2] is not None else found[3]


def _add(result: Translated, translate: Callable[[str, str], Values], key: str, value: str) -> None:
    try:
        found = translate(key, value)
        for name, given in found.items():
            BY_NAME[name].kind.parse(given)
    except (ValueError, Untranslatable) as problem:
        reason = str(problem) if isinstance(problem, Untranslatable) else "the value has no counterpart"
        result.remarks.append(f"{key} = {_shown(key, value)}: {reason}")
        return
    for name, given in found.items():
        before = result.settings.get(name, given)
        if before != given and isinstance(before, list) and isinstance(given, list):
            given = ["*"] if "*" in before + given else [*before, *given]
            result.remarks.append(f"{key} = {_shown(key, value)}: {name} is {given}, for all listeners and lines")
        elif before != given:
            result.remarks.append(f"{key} = {_shown(key, value)}: {name} is {before} by an earlier line")
            continue
        result.settings[name] = given


def _shown(key: str, value: str) -> str:
    """Passwords that are not used are not repeated."""
    return "***" if SECRET.search(key) else URL_PASSWORD.sub(r"\1***@", value)
