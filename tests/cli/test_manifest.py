"""`manifest`: what a prompt was made of, and the prompt itself, byte for byte."""

from __future__ import annotations

import json

import pytest

from artelier import ModelReply, ToolCall
from tests.cli.conftest import Provider, Shell


@pytest.fixture(autouse=True)
def asked(shell: Shell, sales: str, provider: Provider) -> None:
    call = ToolCall(id="1", name="read_file", arguments={"path": "2024.csv"})
    provider.says(ModelReply(tool_calls=(call,)), "South.")
    shell("do", "Which region?", "--solo", "--workspace", sales, "--run-id", "a:b/c")


def test_show_lists_the_parts_and_what_was_left_out(shell: Shell) -> None:
    first = shell("manifest", "show", "a:b/c:c1/model")
    found = shell("manifest", "show", "a:b/c:c2/model", "--json").json

    assert "identity" in first.out
    assert "left out: conversation (empty" in first.out
    assert [part["tag"] for part in found["parts"]] == ["identity", "task", "conversation"]


def test_render_is_the_request_that_was_sent(shell: Shell, provider: Provider) -> None:
    rendered = shell("manifest", "render", "a:b/c:c2/model", "--json")
    readable = shell("manifest", "render", "a:b/c:c2/model").out

    request = json.loads(rendered.out)
    sent = provider.server.requests[1].body["messages"]
    assert [message["role"] for message in request["messages"]] == [message["role"] for message in sent]
    assert rendered.out.count("\n") == 1
    assert 'calls read_file(path="2024.csv")' in readable
    assert "--- 2 user\nWhich region?" in readable


def test_diff_names_the_parts_and_shows_the_lines(shell: Shell) -> None:
    found = shell("manifest", "diff", "a:b/c:c1/model", "a:b/c:c2/model", "--json").json
    same = shell("manifest", "diff", "a:b/c:c1/model", "a:b/c:c1/model")

    assert [(part["tag"], part["change"]) for part in found["parts"]] == [
        ("identity", "same"),
        ("task", "same"),
        ("conversation", "only in the second"),
    ]
    assert "+calls read_file" in found["diff"]
    assert "the same" in same.err


@pytest.mark.parametrize("place", ["nobody:c1/model", "a:b/c:c9/model", "a:b/c:c1/tool/0"])
def test_a_step_without_a_prompt_is_not_found(shell: Shell, place: str) -> None:
    ran = shell("manifest", "show", place)

    assert ran.code == 6
