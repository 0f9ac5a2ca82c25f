"""Names resolve to the port that answers, or to an error that says what to do, before any call."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from artelier.errors import InvalidConfig, MissingKey, UnknownModel
from artelier.models.registry import ModelRegistry
from artelier.ports.model import FREE, ModelPort
from artelier.testing import ScriptedModel

KEYS = {"OPENAI_API_KEY": "sk-1", "ANTHROPIC_API_KEY": "sk-2"}


def scripted() -> ScriptedModel:
    return ScriptedModel([])


def answers(overrides: Any, name: str) -> ModelPort:
    return ModelRegistry(overrides, environ=KEYS).resolve(name).port


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("gpt-4o-mini", "openai:gpt-4o-mini"),
        ("openai:gpt-4o-mini", "openai:gpt-4o-mini"),
        ("OpenAI:gpt-4o", "openai:gpt-4o"),
        ("anthropic:claude-sonnet-4-5", "anthropic:claude-sonnet-4-5"),
        ("ollama:qwen3:8b", "ollama:qwen3:8b"),
    ],
)
def test_a_name_has_one_canonical_form(name: str, canonical: str):
    assert ModelRegistry(environ=KEYS).resolve(name).name == canonical


def test_one_port_for_all_answers_every_name():
    mine = scripted()

    assert answers(mine, "anything:at all") is mine
    assert ModelRegistry(mine, environ={}).resolve("gpt-4o").name == "openai:gpt-4o"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("gpt-4o-mini", "openai:gpt-4o-mini"),
        ("openai:gpt-4o-mini", "gpt-4o-mini"),
        ("openai", "gpt-4o"),
        ("openai:", "openai:gpt-4o"),
        ("openai:gpt-4", "gpt-4o"),
        ("gpt-4", "openai:gpt-4o"),
        ("offline", "offline"),
        ("scripted", "scripted"),
        ("mine", "mine"),
        ("mine", "mine:large"),
        ("mine:", "mine:large"),
        ("", "anything"),
    ],
)
def test_an_override_answers_by_name_provider_or_prefix(key: str, name: str):
    mine = scripted()

    assert answers({key: mine}, name) is mine


def test_exact_names_win_over_providers_and_longer_prefixes_over_shorter():
    exact, provider, long, short = (scripted() for _ in range(4))
    overrides = {"mine:a": short, "mine:ab": long, "openai": provider, "openai:gpt-4o": exact}

    assert answers(overrides, "gpt-4o") is exact
    assert answers(overrides, "gpt-4o-mini") is provider
    assert answers(overrides, "mine:abc") is long
    assert answers(overrides, "mine:axe") is short


def test_an_override_needs_no_key():
    assert ModelRegistry({"gpt-4o": scripted()}, environ={}).resolve("gpt-4o")


def test_the_offline_model_is_always_there_and_one():
    registry = ModelRegistry(environ={})

    name, port = registry.resolve("Offline")

    assert name == "offline"
    assert registry.resolve("offline").port is port
    assert getattr(port, "price", None) == FREE


@pytest.mark.parametrize("name", ["nobody:model", "scripted", "openai:", ":x"])
def test_an_unknown_name_lists_what_is_known(name: str):
    with pytest.raises(UnknownModel, match=r"offline.*openai:<model>.*anthropic:<model>"):
        ModelRegistry(environ=KEYS).resolve(name)


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "x" * 10_000, None, 7])
def test_what_is_no_name_is_refused_in_few_words(name: Any):
    with pytest.raises(UnknownModel, match="not the name of a model") as caught:
        ModelRegistry(environ=KEYS).resolve(name)

    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("gpt-4o", "OPENAI_API_KEY"),
        ("openai-responses:o1-pro", "OPENAI_API_KEY"),
        ("anthropic:claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("deepseek:deepseek-chat", "DEEPSEEK_API_KEY"),
    ],
)
@pytest.mark.parametrize("value", [None, "", "  "])
def test_a_missing_key_is_named_at_resolve_time(name: str, variable: str, value: str | None):
    environ = {} if value is None else {variable: value}

    with pytest.raises(MissingKey, match=variable):
        ModelRegistry(environ=environ).resolve(name)


@pytest.mark.parametrize("key", ["sk-a\nb", "sk-\u00e4\u00f6", "Bearer sk-1", "sk-\x00"])
def test_a_key_that_cannot_be_sent_is_refused_without_showing_it(key: str):
    with pytest.raises(MissingKey, match="not usable") as caught:
        ModelRegistry(environ={"OPENAI_API_KEY": key}).resolve("gpt-4o")

    assert key not in str(caught.value)


def test_white_space_around_a_key_is_harmless():
    assert ModelRegistry(environ={"OPENAI_API_KEY": " sk-1\n"}).resolve("gpt-4o")


def test_a_local_server_needs_no_key():
    environ = {"OPENAI_BASE_URL": "http://localhost:8000/v1"}

    assert ModelRegistry(environ=environ).resolve("openai:qwen3")
    assert ModelRegistry(environ={}).resolve("ollama:llama3.2")


@pytest.mark.parametrize(
    "url", ["localhost:80", "ftp://host/v1", "http://", "http://[bad", "http://u:hidden@h:x", "http://a b"]
)
def test_a_base_url_that_is_none_is_refused(url: str):
    with pytest.raises(InvalidConfig, match="OPENAI_BASE_URL is not a usable URL") as caught:
        ModelRegistry(environ={**KEYS, "OPENAI_BASE_URL": url}).resolve("gpt-4o")

    assert "hidden" not in str(caught.value)


def test_a_model_that_no_table_knows_is_free_only_on_this_machine():
    def price(url: str) -> Any:
        resolved = ModelRegistry(environ={**KEYS, "OPENAI_BASE_URL": url}).resolve("openai:qwen3")
        return getattr(resolved.port, "price", "none at all")

    assert price("http://127.0.0.1:8000/v1") == FREE
    assert price("https://gateway.example.com/v1") is None


def test_a_provider_that_is_not_installed_says_how_to_install_it():
    with pytest.raises(UnknownModel, match=r"uv add 'artelier\[groq\]'"):
        ModelRegistry(environ={"GROQ_API_KEY": "k"}).resolve("groq:llama-3.3-70b-versatile")


def test_what_is_no_model_is_refused():
    with pytest.raises(InvalidConfig, match="'gpt-4o' is no model"):
        ModelRegistry({"gpt-4o": "a string"}, environ={})  # type: ignore[dict-item]


def test_one_port_serves_all_models_of_a_provider():
    registry = ModelRegistry(environ=KEYS)

    assert registry.resolve("gpt-4o").port is registry.resolve("gpt-5-mini").port
    assert registry.resolve("gpt-4o").port is not registry.resolve("openai-responses:o1-pro").port


def test_a_changed_key_is_used_from_the_next_call_on():
    environ = dict(KEYS)
    registry = ModelRegistry(environ=environ)
    before = registry.resolve("gpt-4o").port

    environ["OPENAI_API_KEY"] = "sk-new"

    assert registry.resolve("gpt-4o").port is not before


def test_no_key_is_shown_by_a_resolved_port():
    resolved = ModelRegistry(environ={"OPENAI_API_KEY": "sk-secret-1"}).resolve("gpt-4o")

    assert "sk-secret-1" not in repr(resolved)


def test_resolving_loads_no_provider_code():
    """The code of a provider costs a second or more; it is loaded by the first call."""
    code = (
        "import sys\n"
        "from artelier.models.registry import ModelRegistry\n"
        "ModelRegistry(environ={'OPENAI_API_KEY': 'k'}).resolve('gpt-4o')\n"
        "sys.exit(bool({'pydantic', 'pydantic_ai', 'openai', 'httpx2'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
