"""Errors that are stored tell nobody's keys."""

from __future__ import annotations

import pytest

from artelier.operations.graph.failures import MASK, mask_secrets


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        ("provider said 401 for sk-proj-abcDEF123456789xyz", "sk-proj-abcDEF123456789xyz"),
        ("Authorization: Bearer abc.DEF-123456", "abc.DEF-123456"),
        ("api_key=9f8e7d6c5b4a", "9f8e7d6c5b4a"),
        ('{"password": "hunter2hunter2"}', "hunter2hunter2"),
        ("postgres://ana:s3cret99@db/x", "ana:s3cret99"),
        ("ghp_0123456789abcdef0123", "ghp_0123456789abcdef0123"),
        ("AKIAIOSFODNN7EXAMPLE is not allowed", "AKIAIOSFODNN7EXAMPLE"),
        ("x eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM y", "eyJhbGciOiJI.eyJzdWIiOiIx.SflKxwRJSM"),
    ],
)
def test_a_secret_in_an_error_is_masked(text: str, secret: str) -> None:
    shown = mask_secrets(text)

    assert secret not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "expected a token like `done`, got nothing",
        "the password policy denies this",
        "tool 'query_sql' failed: no column region; expected one of name, amount",
        "https://example.org:8080/path?x=1",
        "the model gave no reply in time; expected at most 30 s",
    ],
)
def test_ordinary_words_stay(text: str) -> None:
    assert mask_secrets(text) == text


def test_a_long_hostile_text_is_read_once() -> None:
    text = "token=" * 20_000 + "sk-" * 20_000

    assert len(mask_secrets(text)) <= len(text)
