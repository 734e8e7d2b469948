"""The manifests for Kubernetes: valid YAML whose names, ports, paths and settings belong together and to the broker."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from leveret.api.openapi.description import ANY_CLIENT
from leveret.api.openapi.document import DESCRIBED
from leveret.config import DECLARED, Settings
from leveret.config_sources import load_settings
from leveret.http.login import METRICS
from leveret.stats.metric_families import OF_QUEUES
from leveret.version import VERSION
from tests.support.monitoring_files import PACKAGING, alerts

FOLDER = PACKAGING / "kubernetes"
CELL, SINGLE, MONITORING = FOLDER, FOLDER / "single", FOLDER / "monitoring"
VARIABLES = {declared.env for declared in DECLARED}
Manifest = dict[str, Any]


def loaded(path: Path) -> list[Manifest]:
    return list(yaml.safe_load_all(path.read_text(encoding="utf-8")))


def kustomization(folder: Path) -> Manifest:
    (found,) = loaded(folder / "kustomization.yaml")
    return found


def manifests(folder: Path = CELL) -> list[Manifest]:
    return [found for name in kustomization(folder)["resources"] for found in loaded(folder / name)]


def one(kind: str, name: str, folder: Path = CELL) -> Manifest:
    (found,) = (each for each in manifests(folder) if each["kind"] == kind and each["metadata"]["name"] == name)
    return found


def pod(name: str, folder: Path = CELL) -> Manifest:
    spec: Manifest = one("StatefulSet", name, folder)["spec"]["template"]["spec"]
    return spec


def container(name: str, folder: Path = CELL) -> Manifest:
    (found,) = pod(name, folder)["containers"]
    return dict(found)


def environ(folder: Path = CELL) -> dict[str, Manifest]:
    return {each["name"]: each for each in container("leveret", folder)["env"]}


PODS = [("nats", CELL), ("leveret", CELL), ("leveret", SINGLE)]
of_each_pod = pytest.mark.parametrize(("name", "folder"), PODS, ids=["nats", "cell", "single"])
of_each_broker = pytest.mark.parametrize("folder", [CELL, SINGLE], ids=["cell", "single"])


@pytest.mark.parametrize(("folder", "number"), [(CELL, 11), (SINGLE, 4), (MONITORING, 1)])
def test_a_kustomization_has_every_manifest_of_its_folder(folder: Path, number: int) -> None:
    files = {path.name for path in folder.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization(folder)["resources"]) == files
    names = [(each["kind"], each["metadata"]["name"]) for each in manifests(folder)]
    assert len(names) == len(set(names)) == number
    for each in manifests(folder):
        assert each["apiVersion"]
        assert each["metadata"]["labels"]["app"] in ("nats", "leveret"), each["metadata"]["name"]
        assert "namespace" not in each["metadata"], "the user chooses it"


@pytest.mark.parametrize("name", ["nats", "leveret"])
def test_three_pods_run_on_three_machines_and_at_most_one_is_stopped(name: str) -> None:
    spec = one("StatefulSet", name)["spec"]
    labels = {"app": name}
    assert spec["replicas"] == 3
    assert spec["podManagementPolicy"] == "Parallel"
    (rule,) = pod(name)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert rule["topologyKey"] == "kubernetes.io/hostname"
    assert rule["labelSelector"]["matchLabels"] == labels
    budget = one("PodDisruptionBudget", name)["spec"]
    assert budget == {"maxUnavailable": 1, "selector": {"matchLabels": labels}}


def test_a_single_node_is_one_pod() -> None:
    assert one("StatefulSet", "leveret", SINGLE)["spec"]["replicas"] == 1
    assert not {name for name in environ(SINGLE) if name.startswith(("LEVERET_CLUSTER", "LEVERET_CELL"))}


@of_each_pod
def test_a_pod_has_no_rights_and_keeps_its_data(name: str, folder: Path) -> None:
    spec = one("StatefulSet", name, folder)["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"] == {"app": name}
    assert pod(name, folder)["securityContext"]["runAsNonRoot"]
    secured = container(name, folder)["securityContext"]
    assert secured["capabilities"] == {"drop": ["ALL"]}
    assert (secured["allowPrivilegeEscalation"], secured["readOnlyRootFilesystem"]) == (False, True)
    claims = {each["metadata"]["name"] for each in spec["volumeClaimTemplates"]}
    volumes = claims | {each["name"] for each in pod(name, folder)["volumes"]}
    assert {each["name"] for each in container(name, folder)["volumeMounts"]} == volumes
    headless = one("Service", spec["serviceName"], folder)["spec"]
    assert (headless["clusterIP"], headless["publishNotReadyAddresses"]) == ("None", True)
    assert headless["selector"] == {"app": name}


@of_each_broker
def test_a_broker_runs_as_in_its_image(folder: Path) -> None:
    """As the image's user, with its data where the image has it, and with no tokens or variables of Kubernetes."""
    image = (PACKAGING / "container" / "Containerfile").read_text(encoding="utf-8")
    security = pod("leveret", folder)["securityContext"]
    assert f"USER {security['runAsUser']}:{security['runAsGroup']}" in image
    assert security["fsGroup"] == security["runAsGroup"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    (data,) = [each["mountPath"] for each in container("leveret", folder)["volumeMounts"] if each["name"] == "data"]
    assert f"LEVERET_DATA_DIR={data}" in image
    assert not pod("leveret", folder)["automountServiceAccountToken"]
    assert not pod("leveret", folder)["enableServiceLinks"], "LEVERET_PORT of a Service would look like a setting"
    assert container("leveret", folder)["image"] == f"leveret:{VERSION}"


@of_each_broker
def test_variables_are_settings_with_valid_values_and_secrets_that_exist(folder: Path) -> None:
    given = environ(folder)
    assert {name for name in given if name.startswith("LEVERET_")} <= VARIABLES
    known = one("Secret", "leveret-logins", folder)["stringData"]
    used = [each["valueFrom"]["secretKeyRef"] for each in given.values() if "secretKeyRef" in str(each)]
    assert {each["name"] for each in used} == {"leveret-logins"}
    assert {each["key"] for each in used} == known.keys()
    plain = {name: each["value"] for name, each in given.items() if "value" in each}
    secret = {name: "x" for name, each in given.items() if "secretKeyRef" in str(each)}
    settings = load_settings(None, {**plain, **secret}, {})
    assert (settings.log_format, settings.default_user) == ("json", "x")


def test_the_nodes_of_a_cell_name_the_servers_of_nats() -> None:
    servers = [f"nats://nats-{place}.nats:4222" for place in range(3)]
    assert environ()["LEVERET_CLUSTER"]["value"] == ",".join(servers)


@of_each_broker
def test_ports_are_those_of_the_settings(folder: Path) -> None:
    settings = Settings()
    wanted = {"amqp": settings.amqp_port, "http": settings.http_port}
    assert {each["name"]: each["port"] for each in one("Service", "leveret", folder)["spec"]["ports"]} == wanted
    if folder == CELL:
        wanted["cluster"] = settings.cluster_port  # not for clients
    assert {each["name"]: each["containerPort"] for each in container("leveret", folder)["ports"]} == wanted
    assert {each["name"]: each["port"] for each in one("Service", "leveret-nodes", folder)["spec"]["ports"]} == wanted


@of_each_broker
@pytest.mark.parametrize(
    ("probe", "path"),
    [("startupProbe", "/health/live"), ("readinessProbe", "/health/ready"), ("livenessProbe", "/health/live")],
)
def test_probes_ask_endpoints_that_need_no_login(folder: Path, probe: str, path: str) -> None:
    found = container("leveret", folder)[probe]
    assert found["httpGet"] == {"path": path, "port": "http"}
    assert DESCRIBED[f"GET {path}"].needs == ANY_CLIENT
    assert found.get("timeoutSeconds", 1) <= found["periodSeconds"]


@of_each_broker
def test_a_pod_has_more_time_to_stop_than_the_broker_and_the_hook_take(folder: Path) -> None:
    program, seconds = container("leveret", folder)["lifecycle"]["preStop"]["exec"]["command"]
    assert program == "sleep"
    longest = int(seconds) + Settings().shutdown_timeout
    assert pod("leveret", folder)["terminationGracePeriodSeconds"] > longest
    patience = container("leveret", folder)["livenessProbe"]
    assert patience["periodSeconds"] * patience["failureThreshold"] >= 60, "a stalled disk is no reason for a restart"


@of_each_broker
def test_monitoring_scrapes_each_node_once_under_the_job_of_the_alerts(folder: Path) -> None:
    monitor = one("ServiceMonitor", "leveret", MONITORING)["spec"]
    chosen = monitor["selector"]["matchLabels"]
    services = [each for each in manifests(folder) if each["kind"] == "Service"]
    (scraped,) = [each for each in services if chosen.items() <= each["metadata"]["labels"].items()]
    assert scraped["spec"]["clusterIP"] == "None", "the pods, not one of them"
    job = scraped["metadata"]["labels"][monitor["jobLabel"]]
    assert any(f'job="{job}"' in alert.expression for alert in alerts())
    for endpoint in monitor["endpoints"]:
        assert endpoint["path"] in METRICS
        assert endpoint["port"] in {each["name"] for each in scraped["spec"]["ports"]}
    families = {name for each in monitor["endpoints"] for name in each.get("params", {}).get("family", ())}
    assert families <= {each.group for each in OF_QUEUES}
    (patch,) = kustomization(MONITORING)["patches"]
    assert patch["target"] == {"kind": "StatefulSet", "name": "leveret"}
    (change,) = yaml.safe_load(patch["patch"])
    assert change["path"] == "/spec/template/spec/containers/0/env/-"
    assert load_settings(None, {change["value"]["name"]: change["value"]["value"]}, {}).metrics_auth == "off"


GUIDE = PACKAGING.parent / "docs" / "guide" / "kubernetes.md"


def test_the_guide_names_folders_files_and_alerts_that_exist() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    for name in set(re.findall(r"packaging/[\w./-]+\w", text)):
        assert (PACKAGING.parent / name).exists(), name
    for alert in set(re.findall(r"`(Leveret[A-Z]\w+)`", text)):
        assert alert in {each.name for each in alerts()}
    for path in set(re.findall(r"`(/health/\w+)`", text)):
        assert f"GET {path}" in DESCRIBED
    for block in re.findall(r"```yaml\n(.*?)```", text, re.DOTALL):
        assert yaml.safe_load(block)
    (own,) = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(# kust.*?)```", text, re.DOTALL)]
    patched = yaml.safe_load(own["patches"][0]["patch"])
    known = one(patched["kind"], patched["metadata"]["name"], SINGLE)
    assert patched["stringData"].keys() == known["stringData"].keys()
    assert own["images"][0]["name"] == container("leveret", SINGLE)["image"].partition(":")[0]


def test_the_log_fits_onto_the_disks_of_the_servers() -> None:
    assert Settings().cluster_log_size < 18 * 10**9
    assert "max_file_store: 18GB" in one("Secret", "nats-config")["stringData"]["nats.conf"]
    (claim,) = one("StatefulSet", "nats")["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
