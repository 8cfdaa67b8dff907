"""The files for Compose and Kubernetes: those who read them take them, and they agree with the images."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from highwater.bench.user_cache import cached, pip_install, run_step
from tools.release.image import KINDS, LOG_DIRECTORY, USER

ROOT: Final = Path(__file__).parents[2]
FILES: Final = ROOT / "examples/containers"
_VALIDATOR: Final = ROOT / "requirements/kubernetes-validate.txt"
_SPECIFICATION: Final = Path(__file__).parent / "compose_spec"
VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def _compose() -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((FILES / "compose.yaml").read_text("utf-8"))
    return read


def _manifests() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((FILES / "kubernetes.yaml").read_text("utf-8")))


@pytest.fixture(scope="session")
def compose_schema() -> dict[str, Any]:
    """That of Docker's own reader."""
    if shutil.which("go") is None:
        pytest.skip("no go here, which fetches the schema of Compose: apt-get install -y golang")
    found = json.loads(
        run_step(["go", "mod", "download", "-json", "github.com/compose-spec/compose-go/v2"], _SPECIFICATION)
    )
    schema: dict[str, Any] = json.loads(Path(found["Dir"], "schema/compose-spec.json").read_text("utf-8"))
    return schema


@pytest.fixture(scope="session")
def validator() -> Path:
    """kubernetes-validate, which has the schemas of Kubernetes in it."""
    digest = hashlib.sha256(_VALIDATOR.read_bytes()).hexdigest()[:12]
    return cached(
        f"kubernetes-validate-{digest}", "fetching kubernetes-validate", lambda place: pip_install(_VALIDATOR, place)
    )


def _validate(validator: Path, text: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "kubernetes_validate", "--strict", "-"]
    environment = {**os.environ, "PYTHONPATH": str(validator)}
    return subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_compose_takes_the_file_and_refuses_a_wrong_one(compose_schema: dict[str, Any]) -> None:
    read = _compose()
    jsonschema.validate(read, compose_schema)
    read["services"]["broker"]["read_onyl"] = True
    with pytest.raises(jsonschema.ValidationError, match="read_onyl"):
        jsonschema.validate(read, compose_schema)


@pytest.mark.slow
def test_kubernetes_takes_the_manifests_and_refuses_a_wrong_one(validator: Path) -> None:
    text = (FILES / "kubernetes.yaml").read_text("utf-8")
    taken = _validate(validator, text)
    assert taken.returncode == 0, taken.stderr
    refused = _validate(validator, text.replace("readOnlyRootFilesystem", "readOnlyRootFileSystem"))
    assert refused.returncode != 0
    assert "readOnlyRootFileSystem" in refused.stdout + refused.stderr


def test_images_are_those_of_this_version() -> None:
    names = {details.name for details in KINDS.values()}
    used = {service["image"] for service in _compose()["services"].values()}
    for spec in _pod_specs():
        used |= {container["image"] for container in [*spec["containers"], *spec.get("initContainers", [])]}
    assert used == {f"{name}:{VERSION}" for name in names}


def test_nothing_runs_as_root_or_writes_outside_of_volumes() -> None:
    for spec in _pod_specs():
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["securityContext"]["runAsUser"] == spec["securityContext"]["fsGroup"] == USER
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert container["resources"].keys() == {"requests", "limits"}
    for service in _compose()["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert any(volume.endswith(f":{LOG_DIRECTORY}") for volume in service["volumes"])


def test_clients_are_sent_where_they_can_go() -> None:
    broker = _compose()["services"]["broker"]
    assert all(port.startswith("127.0.0.1:") for port in broker["ports"])  # nobody else of the network
    assert "--property=advertised.listeners=PLAINTEXT://localhost:9092,INSIDE://broker:19092" in broker["command"]
    service, stateful, *_ = _manifests()
    (container,) = stateful["spec"]["template"]["spec"]["containers"]
    pod = f"{stateful['metadata']['name']}-0.{service['metadata']['name']}"
    assert f"--property=advertised.listeners=PLAINTEXT://{pod}:9092" in container["args"]


def _pod_specs() -> list[dict[str, Any]]:
    return [each["spec"]["template"]["spec"] for each in _manifests() if "template" in each["spec"]]
