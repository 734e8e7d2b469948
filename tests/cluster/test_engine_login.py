"""Servers of the engine that demand a login or a certificate."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from leveret.cluster.engine import Engine, EngineOptions
from leveret.cluster.engine_checks import check_engine, read_facts
from leveret.cluster.engine_login import EngineLogin
from leveret.cluster.node_settings import engine_options
from leveret.cluster_node import ClusterNode
from leveret.config import Settings
from leveret.errors import ClusterError
from tests.support.cell_node import Cell, until
from tests.support.certificates import CertificateFiles
from tests.support.nats_servers import NatsServers

USER = 'authorization { users: [{ user: "leveret", password: "s3cret" }] }\n'
GOOD = EngineLogin("leveret", "s3cret")
TLS = '{0} {{ cert_file: "{1.certificate}", key_file: "{1.key}", ca_file: "{1.clients}", verify: {2} }}\n'


def options_of(servers: NatsServers, login: EngineLogin, scheme: str = "nats") -> EngineOptions:
    urls = tuple(url.replace("nats://", f"{scheme}://") for url in servers.urls)
    return EngineOptions(urls, tuple(servers.monitoring), is_unsafe_allowed=True, login=login)


async def log_in(options: EngineOptions) -> None:
    connection = await Engine(options, "test").connect_within(20)
    try:
        assert (await connection.request("$JS.API.INFO"))["type"].endswith("account_info_response")
    finally:
        await connection.close()


async def refused(options: EngineOptions) -> str:
    """The error of a node that starts, which comes at once."""
    async with asyncio.timeout(10):
        with pytest.raises(ClusterError, match="cannot log in to the engine") as caught:
            await Engine(options, "test").connect_within(60)
    return str(caught.value)


class Certificates(CertificateFiles):
    """With those of a client."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        super().__init__(folder)
        issued = self.authority.issue_cert("node")
        self.client_certificate, self.client_key = folder / "client.pem", folder / "client.key"
        self.client_certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.client_key.write_bytes(issued.private_key_pem.bytes())
        self.login = EngineLogin(tls_ca=self.clients, tls_cert=self.client_certificate, tls_key=self.client_key)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServers]:
    """One server with a password."""
    with NatsServers(tmp_path_factory.mktemp("password"), 1, more=USER) as servers:
        servers.start()
        asyncio.run(log_in(options_of(servers, GOOD)))
        yield servers


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("tls") / "files")


@pytest.fixture(scope="module")
def mutual(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[NatsServers]:
    """One server with TLS that demands a certificate, and with a password."""
    more = USER + TLS.format("tls", certificates, "true")
    with NatsServers(tmp_path_factory.mktemp("mutual"), 1, more=more) as servers:
        servers.start()
        with_user = EngineLogin("leveret", "s3cret", None, *_files(certificates))
        asyncio.run(log_in(options_of(servers, with_user, "tls")))
        yield servers


def _files(certificates: Certificates) -> tuple[Path, Path, Path]:
    return certificates.clients, certificates.client_certificate, certificates.client_key


@pytest.mark.parametrize(
    ("login", "remedy"),
    [
        (EngineLogin("leveret", "wrong"), "correct cluster_user and cluster_password"),
        (EngineLogin(), "set cluster_user and cluster_password, or cluster_credentials"),
    ],
)
def test_a_wrong_login_is_reported_at_once(guarded: NatsServers, login: EngineLogin, remedy: str) -> None:
    problem = asyncio.run(refused(options_of(guarded, login)))
    assert "Authorization Violation" in problem
    assert remedy in problem
    assert "wrong" not in problem


def test_a_wrong_login_ends_the_start_of_a_node_and_is_not_logged(
    guarded: NatsServers, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(
        data_dir=tmp_path,
        cluster=tuple(guarded.urls),
        cluster_monitoring=tuple(guarded.monitoring),
        allow_unsafe_engine=True,
        cluster_user="leveret",
        cluster_password="pa55word",
    )

    async def start() -> None:
        async with asyncio.timeout(10):
            await ClusterNode(settings).start()

    with pytest.raises(ClusterError, match=r"cannot log in to the engine.*correct cluster_user and cluster_password"):
        asyncio.run(start())
    assert "pa55word" not in caplog.text + repr(engine_options(settings))


def test_a_password_is_not_sent_to_a_server_without_tls_if_tls_is_demanded(
    guarded: NatsServers, certificates: Certificates
) -> None:
    by_scheme = options_of(guarded, GOOD, "tls")
    by_setting = options_of(guarded, EngineLogin("leveret", "s3cret", tls_ca=certificates.clients))
    for options in (by_scheme, by_setting):
        assert "the server does not use TLS: configure 'tls' in the NATS server" in asyncio.run(refused(options))


@pytest.mark.parametrize("scheme", ["nats", "tls"])
def test_certificates_of_both_sides_are_verified(mutual: NatsServers, certificates: Certificates, scheme: str) -> None:
    without = EngineLogin("leveret", "s3cret", tls_ca=certificates.clients)
    problem = asyncio.run(refused(options_of(mutual, without, scheme)))
    assert "demands a client certificate: set cluster_tls_cert" in problem
    problem = asyncio.run(refused(options_of(mutual, GOOD, scheme)))
    assert "set cluster_tls_ca to the CA of the NATS servers" in problem


def test_a_certificate_without_the_right_password_is_refused(mutual: NatsServers, certificates: Certificates) -> None:
    assert "Authorization Violation" in asyncio.run(refused(options_of(mutual, certificates.login, "tls")))


def test_a_certificate_for_another_host_is_refused(mutual: NatsServers, certificates: Certificates) -> None:
    options = EngineOptions((mutual.urls[0].replace("127.0.0.1", "localhost"),), login=certificates.login)
    assert "use a host name that is in their certificates" in asyncio.run(refused(options))


def test_files_that_cannot_be_used_are_named(mutual: NatsServers, certificates: Certificates, tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"
    for login in (EngineLogin(tls_ca=missing), EngineLogin(tls_ca=certificates.clients, tls_cert=missing)):
        assert f"{str(missing)!r}: check the files of cluster_tls_ca" in asyncio.run(refused(options_of(mutual, login)))
    wrong_key = EngineLogin(None, None, None, *_files(certificates)[:2], certificates.key)
    assert "KEY_VALUES_MISMATCH" in asyncio.run(refused(options_of(mutual, wrong_key)))


@pytest.mark.skipif(importlib.util.find_spec("nkeys") is not None, reason="nkeys is installed")
def test_the_package_for_credentials_files_is_named(guarded: NatsServers, tmp_path: Path) -> None:
    (tmp_path / "user.creds").touch()
    options = options_of(guarded, EngineLogin(credentials=tmp_path / "user.creds"))
    assert "pip install 'nats-py[nkeys]'" in asyncio.run(refused(options))


def test_monitoring_over_https(tmp_path: Path, certificates: Certificates) -> None:
    with NatsServers(tmp_path, 1, more=TLS.format("tls", certificates, "false"), secure_monitoring=True) as servers:
        servers.start()
        login = EngineLogin(tls_ca=certificates.clients)
        asyncio.run(log_in(options_of(servers, login)))
        assert asyncio.run(check_engine(options_of(servers, login)))[0].syncs_always
        with pytest.raises(ClusterError, match="CERTIFICATE_VERIFY_FAILED"):
            asyncio.run(check_engine(EngineOptions((), tuple(servers.monitoring))))


def is_answering(monitoring: str) -> bool:
    try:
        return bool(read_facts(monitoring))
    except ClusterError:
        return False


def test_a_node_leads_with_password_and_certificates(tmp_path: Path, certificates: Certificates) -> None:
    ca, certificate, key = _files(certificates)
    with NatsServers(tmp_path, more=USER + TLS.format("tls", certificates, "true")) as servers:
        servers.start()
        for url in servers.monitoring:
            until(partial(is_answering, url), 20, lambda: "no server")
        files = ("--cluster-tls-ca", str(ca), "--cluster-tls-cert", str(certificate), "--cluster-tls-key", str(key))
        cell = Cell(tmp_path, servers, "secure", "--cluster-user", "leveret", *files, nodes=1)
        (node,) = cell.nodes
        try:
            node.start(LEVERET_CLUSTER_PASSWORD="s3cret")
            assert cell.leader() is node
            node.wait_for("leader of the cell secure")
            assert "s3cret" not in node.log()
        finally:
            cell.end()
