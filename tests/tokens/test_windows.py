"""The window of a model: overridden, published, of its family, or a careful default."""

from __future__ import annotations

import subprocess
import sys

import pytest

from artelier.tokens.model_info import DEFAULT_WINDOW, PartialWindow, Window, Windows, canonical_name


@pytest.mark.parametrize(
    ("name", "context_tokens"),
    [
        ("gpt-4o-mini", 128_000),
        ("openai:gpt-4o-mini-2024-07-18", 128_000),
        ("openai:gpt-4", 8_192),
        ("openai:gpt-5-mini", 400_000),
        ("anthropic:claude-sonnet-4-5", 200_000),
        ("google:gemini-2.5-pro", 1_000_000),
        ("ollama:llama3.2", 4_096),
        ("offline", 1_000_000),
        ("nobody:knows", 128_000),
        ("", 128_000),
    ],
)
def test_known_models_have_their_window(name: str, context_tokens: int):
    assert Windows().of(name).context_tokens == context_tokens


def test_a_longer_family_wins_over_a_shorter_one():
    assert Windows().of("openai:gpt-4-turbo-unheard-of").context_tokens == 128_000
    assert Windows().of("openai:gpt-3.5-unheard-of").context_tokens == 16_385


def test_an_unknown_model_may_write_sixteen_thousand_tokens():
    assert Windows().of("nobody:knows") == DEFAULT_WINDOW
    assert DEFAULT_WINDOW.max_output_tokens == 16_384


def test_an_override_of_one_limit_leaves_the_other_as_published():
    windows = Windows({"openai:gpt-4.1": PartialWindow(max_output_tokens=100)})

    assert windows.of("openai:gpt-4.1") == Window(context_tokens=1_000_000, max_output_tokens=100)


def test_overrides_win_by_exact_name_and_by_longest_prefix():
    windows = Windows(
        {
            "gpt-4o": Window(context_tokens=10),
            "ollama:": Window(context_tokens=20),
            "ollama:qwen": Window(context_tokens=30),
        }
    )

    assert windows.of("openai:gpt-4o").context_tokens == 10
    assert windows.of("ollama:llama3.2").context_tokens == 20
    assert windows.of("ollama:qwen3:8b").context_tokens == 30


def test_names_have_one_canonical_form():
    assert canonical_name("gpt-4o-mini") == "openai:gpt-4o-mini"
    assert canonical_name(" Offline ") == "offline"
    assert canonical_name("OLLAMA: qwen3:8b") == "ollama:qwen3:8b"


def test_built_in_models_load_no_price_table():
    """The table costs half a second of CPU; agents on built-in models never pay it."""
    code = (
        "import sys\n"
        "from artelier.tokens.model_info import Windows\n"
        "from artelier.tokens.model_info import ModelPrices\n"
        "Windows().of('offline'); ModelPrices().price_of('offline')\n"
        "sys.exit('genai_prices' in sys.modules or 'pydantic' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
