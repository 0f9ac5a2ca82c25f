"""What is deployed: each command of the image and of its services is one that this version understands."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from artelier.cli.tree import root_command
from tests.repository.sources import ROOT

DEPLOY = ROOT / "deploy"


def _image(instruction: str) -> list[str]:
    """The list of an instruction of the image's last stage."""
    found = re.findall(rf"^{instruction} (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    words: list[str] = json.loads(found[-1])
    return words


def _services() -> dict[str, dict[str, Any]]:
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    return found["services"]


def parse(words: list[str]) -> dict[str, Any]:
    """The options of a command line, parsed and not obeyed."""
    root: Any = root_command()
    context = root.make_context("artelier", list(words))
    name, command, rest = root.resolve_command(context, list(words))
    return command.make_context(name, rest, parent=context).params


@pytest.mark.parametrize("name", ["server", "worker"])
def test_a_service_has_a_command_that_is_understood(name: str) -> None:
    given = parse(_services()[name]["command"])

    assert given["health"] == "0.0.0.0:9090", "the image's health check asks there"


def test_the_image_starts_a_worker_and_asks_where_it_answers() -> None:
    assert _image("ENTRYPOINT") == ["artelier"]
    assert parse(_image("CMD"))["health"] == "0.0.0.0:9090"
    assert "http://127.0.0.1:9090/readyz" in (DEPLOY / "Dockerfile").read_text()


def test_a_command_that_is_not_understood_is_found() -> None:
    with pytest.raises(Exception, match="--slot"):
        parse(["worker", "--slotz=3"])


def test_what_the_image_copies_is_here() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    copied = [words.split()[:-1] for words in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE)]

    assert copied
    assert [path for paths in copied for path in paths if not (ROOT / path).exists()] == []


def test_services_share_one_volume_of_one_machine_and_end_before_they_are_killed() -> None:
    for service in _services().values():
        assert service["volumes"] == ["data:/data"]
        assert service["stop_grace_period"] == "30s", "draining takes up to 20"


# Kubernetes


def _objects() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def _pods() -> dict[str, dict[str, Any]]:
    found = (one for one in _objects() if one["kind"] == "Deployment")
    return {one["metadata"]["name"]: one["spec"]["template"]["spec"] for one in found}


@pytest.mark.parametrize("name", ["artelier-server", "artelier-worker"])
def test_a_pod_has_a_command_that_is_understood_and_is_asked_where_it_answers(name: str) -> None:
    (container,) = _pods()[name]["containers"]
    given = parse(container["args"])
    ports = {one["name"]: one["containerPort"] for one in container["ports"]}

    assert given["health"] == f"0.0.0.0:{ports['health']}"
    for probe, path in (("startupProbe", "/readyz"), ("livenessProbe", "/livez")):
        assert container[probe]["httpGet"] == {"path": path, "port": "health"}
    assert _pods()[name]["terminationGracePeriodSeconds"] >= 30, "draining takes up to 20"


def test_a_pod_mounts_its_volumes_and_writes_to_no_other_place() -> None:
    for pod in _pods().values():
        (container,) = pod["containers"]
        assert {one["name"] for one in container["volumeMounts"]} == {one["name"] for one in pod["volumes"]}
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert {"/data", "/tmp"} <= {one["mountPath"] for one in container["volumeMounts"]}


def test_the_service_finds_the_pods_of_the_server_and_its_claim_is_made() -> None:
    kinds = {one["kind"]: one for one in _objects()}
    server = next(one for one in _objects() if one["metadata"]["name"] == "artelier-server")
    claims = {
        one["persistentVolumeClaim"]["claimName"]
        for pod in _pods().values()
        for one in pod["volumes"]
        if "persistentVolumeClaim" in one
    }

    assert kinds["Service"]["spec"]["selector"] == server["spec"]["template"]["metadata"]["labels"]
    assert claims == {kinds["PersistentVolumeClaim"]["metadata"]["name"]}
