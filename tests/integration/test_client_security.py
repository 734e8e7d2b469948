"""TLS, logins by certificate, and IPv6."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

import leveret
from leveret.client import AddressError, Connection, ConnectionLost, connect
from leveret.config import Settings
from tests.support.certificates import CertificateFiles
from tests.support.client_scenarios import live, run


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return CertificateFiles(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def sealed(certificates: CertificateFiles) -> Iterator[leveret.Broker]:
    with leveret.Broker(certificates.settings()) as running:
        yield running


def user_of(broker: leveret.Broker) -> str:
    return broker.call(lambda: [each.user.name for each in broker.node.broker.registry.connections][-1])  # type: ignore[attr-defined]


def certificate_for(certificates: CertificateFiles, folder: Path, authority: trustme.CA | None = None) -> str:
    """Of the user ann, as options of an address."""
    issued = (authority or certificates.authority).issue_cert(common_name="ann")
    issued.cert_chain_pems[0].write_to_path(folder / "ann.pem")
    issued.private_key_pem.write_to_path(folder / "ann.key")
    return f"certfile={folder / 'ann.pem'}&keyfile={folder / 'ann.key'}"


async def nothing(connection: Connection) -> None:
    await connection.channel()


@pytest.mark.feature("S3-03")
def test_a_password_over_tls(sealed: leveret.Broker, certificates: CertificateFiles) -> None:
    async def story(connection: Connection) -> None:
        channel = await connection.channel()
        queue = (await channel.declare_queue(exclusive=True)).queue
        await channel.confirm_select()
        await channel.publish(bytes(1_000_000), routing_key=queue)
        message = await channel.get(queue, no_ack=True)
        assert message is not None
        assert message.body == bytes(1_000_000)

    live(f"{sealed.amqps_url}?cacertfile={certificates.clients}", story)
    live(f"{sealed.amqps_url.replace('amqps', 'tls')}?cacertfile={certificates.clients}", nothing)


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_nobody_asks(sealed: leveret.Broker) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLost, match="certificate verify failed"):
            await connect(sealed.amqps_url)

    run(story)
    live(f"{sealed.amqps_url}?verify=verify_none", nothing)


def test_the_certificate_must_name_the_host_or_the_given_name(
    sealed: leveret.Broker, certificates: CertificateFiles
) -> None:
    async def story() -> None:
        with pytest.raises(ConnectionLost, match=r"other\.example"):
            await connect(f"{sealed.amqps_url}?cacertfile={certificates.clients}&server_name_indication=other.example")

    run(story)


def test_who_shows_a_certificate_and_names_no_user_is_the_one_it_names(
    sealed: leveret.Broker, certificates: CertificateFiles, tmp_path: Path
) -> None:
    async def story(connection: Connection) -> None:
        await connection.channel()
        assert user_of(sealed) == "ann"

    url = sealed.amqps_url.replace("guest:guest@", "")
    live(f"{url}?cacertfile={certificates.clients}&{certificate_for(certificates, tmp_path)}", story)


def test_who_shows_a_certificate_may_still_come_by_password(
    sealed: leveret.Broker, certificates: CertificateFiles, tmp_path: Path
) -> None:
    async def story(connection: Connection) -> None:
        assert user_of(sealed) == "guest"

    live(f"{sealed.amqps_url}?cacertfile={certificates.clients}&{certificate_for(certificates, tmp_path)}", story)


def test_a_certificate_without_tls_is_no_login(
    broker: leveret.Broker, certificates: CertificateFiles, tmp_path: Path
) -> None:
    async def story() -> None:
        url = broker.amqp_url.replace("guest:guest@", "")
        with pytest.raises(ConnectionLost, match=r"does not offer SASL EXTERNAL, only .*PLAIN.*: name a user"):
            await connect(f"{url}?{certificate_for(certificates, tmp_path)}")

    run(story)


def test_a_file_that_is_not_there_is_named(sealed: leveret.Broker) -> None:
    async def story() -> None:
        with pytest.raises(AddressError, match=r"'cacertfile' of amqps://.*: file not found: 'nowhere\.pem'"):
            await connect(f"{sealed.amqps_url}?cacertfile=nowhere.pem")

    run(story)


def test_ipv6() -> None:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.bind(("::1", 0))
    except OSError as problem:
        pytest.skip(f"kernel: no IPv6 here ({problem})")
    with leveret.Broker(Settings(amqp_port=0, http_port=None, stomp_port=None, host=("::1",))) as broker:
        assert "[::1]" in broker.amqp_url
        live(broker.amqp_url, nothing)
