"""Test suites of AMQP clients, run unchanged against a Leveret broker.

Each suite comes from the source distribution of its client on PyPI. Every test that is left out is listed with a
reason, and so is every test that skips itself: a suite that tests less than before without notice fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version as installed_version

# The broker listens on the standard ports of a network namespace; see runner.py.
HOST = "127.0.0.1"
AMQP_PORT, AMQPS_PORT, HTTP_PORT = 5672, 5671, 15672


@dataclass(frozen=True, slots=True)
class Suite:
    package: str
    tests: tuple[str, ...]  # paths in the source distribution
    config: str  # pytest reads this file of the source distribution instead of the project's
    pinned: str = ""  # version, for a client that is not installed in the test environment
    requirements: tuple[str, ...] = ()  # packages that the suite needs beyond the test environment
    environ: Mapping[str, str] = field(default_factory=dict)  # {certificates} stands for their folder
    certificates: Mapping[str, str] = field(default_factory=dict)  # path in the source distribution: file to copy there
    quick: bool = False  # runs in `make test`
    deselected: Mapping[str, str] = field(default_factory=dict)  # node id: reason

    @property
    def version(self) -> str:
        return self.pinned or installed_version(self.package)


SUITES = (
    Suite(
        package="amqp",
        tests=("t/integration/test_rmq.py",),
        config="setup.cfg",
        quick=True,
        certificates={
            "t/certs/ca_certificate.pem": "ca.pem",
            "t/certs/client_certificate.pem": "client.pem",
            "t/certs/client_key.pem": "client.key",
            "t/certs/client_certificate_broken.pem": "client.pem",
            "t/certs/client_key_broken.pem": "server.key",  # does not belong to the certificate
        },
        deselected={
            "t/integration/test_rmq.py::test_tls_default_certs": "connects to badssl.com",
            "t/integration/test_rmq.py::test_tls_no_default_certs_fails": "connects to badssl.com",
        },
    ),
    Suite(
        package="kombu",
        tests=("t/integration/test_py_amqp.py",),
        config="setup.cfg",
        quick=True,
    ),
    Suite(
        package="amqpstorm",
        tests=("amqpstorm/tests/functional",),
        config="pyproject.toml",
        environ={
            "AMQP_HOST": HOST,
            "AMQP_USERNAME": "guest",
            "AMQP_PASSWORD": "guest",
            "AMQP_URI": f"amqp://guest:guest@{HOST}:{AMQP_PORT}/%2F",
            "AMQP_HTTP_URL": f"http://{HOST}:{HTTP_PORT}",
            "AMQP_SSL_URI": f"amqps://guest:guest@{HOST}:{AMQPS_PORT}/%2F",
            "AMQP_SSL_HOST": HOST,
            "AMQP_CAFILE": "{certificates}/ca.pem",
            "AMQP_CERTFILE": "{certificates}/client.pem",
            "AMQP_KEYFILE": "{certificates}/client.key",
        },
        deselected={
            "amqpstorm/tests/functional/management/test_api.py::ApiFunctionalTests::test_api_cluster_name": (
                "expects the cluster name of the author's broker"
            ),
        },
    ),
    Suite(
        package="rabbitpy",
        tests=("tests/test_integration.py", "tests/integration"),
        config="pyproject.toml",
        pinned="3.0.2",
        requirements=("python-dotenv>=1,<2",),
        environ={"RABBITMQ_URL": f"amqp://guest:guest@{HOST}:{AMQP_PORT}/%2F"},
    ),
)
