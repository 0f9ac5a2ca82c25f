"""Models of worlds from the command line: what the host got wrong stops a world before its tick."""

from __future__ import annotations

import json
from typing import Any

import pytest

from artelier.cli import exit_codes
from tests.cli.conftest import Provider, Shell

NOOP = '{"action": "noop"}'
PLAIN = '[[agents]]\nid = "ana"\ndefaults = false\n'


def made(shell: Shell, text: str, *options: str) -> None:
    file = shell.write("town.toml", text)
    assert shell("world", "new", "town", "--file", str(file), *options).code == 0


def settings(shell: Shell) -> dict[str, Any]:
    return shell("world", "show", "town", "--json").json["settings"]


def stopped(shell: Shell, *options: str) -> dict[str, Any]:
    """The error of a tick that did not begin; nothing of the world has changed by it."""
    before = shell("world", "hash", "town").out
    ran = shell("world", "run", "town", *options, "--json")
    assert ran.code == exit_codes.USAGE, ran.out
    assert shell("world", "hash", "town").out == before
    assert shell("runs", "list", "--json").json["items"] == []
    return ran.error


MISTAKES = [
    ("openai:gpt-5-mini", "missing_key", "OPENAI_API_KEY"),
    ("nobodys:model", "unknown_model", "no model is called"),
    ("   ", "unknown_model", "not the name of a model"),
]


@pytest.mark.parametrize(("model", "code", "words"), MISTAKES)
def test_a_model_of_the_file_that_cannot_be_asked_stops_the_world_before_the_tick(
    shell: Shell, model: str, code: str, words: str
) -> None:
    made(shell, f'[world]\nmodel = "{model}"\n{PLAIN}')

    error = stopped(shell)

    assert error["code"] == code
    assert "tick 1 of world town did not begin" in error["message"] and "of ana" in error["message"]
    assert words in json.dumps(error) and "--model" in error["hint"]


@pytest.mark.parametrize("model", ["openai:gpt-5-mini", "nobodys:model"])
def test_a_model_that_the_file_names_for_an_agent_is_the_hosts_mistake_too(shell: Shell, model: str) -> None:
    made(shell, f'{PLAIN}model = "{model}"\n[[agents]]\nid = "bob"\n')

    error = stopped(shell)

    assert "of ana cannot be asked" in error["message"]
    assert "agent artifact of ana" in error["hint"]


def test_a_package_that_is_not_installed_stops_the_world_and_names_the_extra(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "groq" else found(name))
    shell.set("GROQ_API_KEY", "k")
    made(shell, f'[world]\nmodel = "groq:llama"\n{PLAIN}')

    error = stopped(shell)

    assert "is not installed" in error["message"] and "artelier[groq]" in error["hint"]


def test_the_environment_names_the_model_of_a_world_and_it_is_recorded(
    shell: Shell, provider: Provider
) -> None:
    provider.says(*[NOOP] * 4)
    made(shell, PLAIN)
    assert settings(shell)["model"] == "openai:gpt-5-mini"

    shell.set("ARTELIER_MODEL", "offline")
    assert shell("world", "run", "town").code == 0

    assert provider.calls == 1, "what holds for a world was recorded when it was made"


def test_the_model_of_the_command_line_holds_over_file_and_environment(
    shell: Shell, provider: Provider
) -> None:
    provider.says(*[NOOP] * 4)
    made(shell, f'[world]\nmodel = "nobodys:model"\n{PLAIN}', "--model", "offline")
    assert settings(shell)["model"] == "offline"

    assert shell("world", "run", "town", "--ticks", "2").code == 0
    assert provider.calls == 0
    assert shell("world", "run", "town", "--model", "openai:gpt-5-mini").code == 0
    assert shell("world", "step", "town").code == 0

    assert provider.calls == 2 and settings(shell)["model"] == "openai:gpt-5-mini"


def test_a_wrong_model_on_the_command_line_changes_nothing(shell: Shell) -> None:
    made(shell, PLAIN)

    for model, _, words in MISTAKES:
        assert words in json.dumps(stopped(shell, "--model", model))

    assert settings(shell)["model"] == "offline"
    assert shell("world", "run", "town").code == 0


def test_max_usd_holds_for_all_agents_of_a_world_together(shell: Shell, provider: Provider) -> None:
    provider.says(*[NOOP] * 20)
    agents = '[[agents]]\nid = "a{n}"\ncount = 4\ndefaults = false\n'
    made(shell, f'[world]\nmodel = "openai:gpt-5-mini"\n{agents}')

    ran = shell("world", "run", "town", "--ticks", "3", "--max-usd", "0.0000001", "--json")
    assert ran.code == exit_codes.USAGE, "less than a micro-dollar is no amount"
    ran = shell("world", "run", "town", "--ticks", "3", "--max-usd", "0.004", "--json")

    assert ran.code == exit_codes.BUDGET, ran.out
    assert ran.error["code"] == "limit_reached" and "--max-usd" in ran.error["hint"]
    asked = provider.calls
    assert asked < 12
    spent = shell("tenants", "show", "--json").json
    assert float(spent["spent_usd"]) <= 0.004, spent
    # Without the option no cap is left behind, and nobody is asked twice.
    now = shell("world", "show", "town", "--json").json["tick"]
    assert shell("world", "run", "town", "--ticks", str(3 - now)).code == 0
    assert provider.calls == 12
