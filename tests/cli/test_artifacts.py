"""`artifacts`: what runs wrote, as a person may read it."""

from __future__ import annotations

import asyncio

import pytest

from artelier import Kernel
from artelier.artifacts import Provenance
from tests.cli.conftest import Shell


@pytest.fixture(autouse=True)
def written(shell: Shell) -> None:
    """A document in two versions, one derived from it, some bytes, and something private."""

    async def write() -> None:
        with Kernel.open(".artelier/state.db") as kernel:
            artifacts = kernel.for_tenant().as_principal("agent:ana").artifacts
            await artifacts.write("plan", kind="document", content="one\ntwo\n")
            await artifacts.write("plan", content="one\nthree\n")
            await artifacts.write(
                "summary",
                kind="document",
                content={"lines": 2},
                provenance=Provenance(derived_from=("plan@2",), run_id="r1", step="c1/model"),
            )
            await artifacts.write("picture", kind="document", content=b"\x89PNG\x00")
            await artifacts.write("secret", kind="document", content="mine", access="private")

    asyncio.run(write())


def test_list_shows_what_the_person_may_read(shell: Shell) -> None:
    found = shell("artifacts", "list", "--json").json
    owner = shell("artifacts", "list", "--as", "agent:ana", "--json").json

    assert [item["id"] for item in found["items"]] == ["plan", "summary", "picture"]
    assert "secret" in [item["id"] for item in owner["items"]]
    assert "plan" in shell("artifacts", "list").out


def test_list_comes_in_pages(shell: Shell) -> None:
    first = shell("artifacts", "list", "--limit", "2", "--json").json
    second = shell("artifacts", "list", "--after", first["next"], "--json").json

    assert [item["id"] for item in second["items"]] == ["picture"]
    assert second["next"] is None


def test_show_prints_the_content_and_nothing_else_on_stdout(shell: Shell) -> None:
    newest = shell("artifacts", "show", "plan")
    older = shell("artifacts", "show", "plan@1")

    assert newest.out == "one\nthree\n\n"
    assert older.out == "one\ntwo\n\n"
    assert "plan@2  document of agent:ana" in newest.err
    assert shell("artifacts", "show", "summary", "--json").json["content"] == {"lines": 2}


def test_private_content_is_refused_with_a_hint(shell: Shell) -> None:
    refused = shell("artifacts", "show", "secret")

    assert refused.code == 1
    assert "--as" in refused.err
    assert shell("artifacts", "show", "secret", "--as", "agent:ana").out == "mine\n"


def test_history_diff_and_lineage(shell: Shell) -> None:
    versions = shell("artifacts", "history", "plan", "--json").json["items"]
    text = shell("artifacts", "diff", "plan", "1", "2").out
    lineage = shell("artifacts", "lineage", "plan", "--json").json

    assert [item["version"] for item in versions] == [1, 2]
    assert "-two\n+three" in text
    assert lineage["derived"] == ["summary@1"]
    assert "from  plan@2" in shell("artifacts", "lineage", "summary").out
    assert "agent:ana" in shell("artifacts", "history", "plan").out


@pytest.mark.parametrize("words", [["show", "gone"], ["history", "gone"], ["show", "plan@9"]])
def test_what_is_not_there_is_not_found(shell: Shell, words: list[str]) -> None:
    assert shell("artifacts", *words).code == 6
