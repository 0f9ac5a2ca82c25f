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
