"""The reference of operations: made of the declarations, and complete."""

from __future__ import annotations

import ast
import asyncio
import re
from pathlib import Path
from typing import get_args

from artelier import Kernel, OperationProfile, Session
from artelier.operations.graph.scope import Situation
from artelier.operations.kinds import KINDS, kind_named
from artelier.testing import ScriptedModel
from artelier_lab.operations_page import ERRORS, NAMES, effect_forms, operations_page
from tests.repository.markdown import blocks
from tests.repository.sources import ROOT

HOME = ROOT / "src/artelier/operations"


def test_the_page_of_operations_is_made_of_their_declarations() -> None:
    assert (ROOT / "docs/operations.md").read_text(encoding="utf-8") == operations_page()


def test_each_field_says_what_it_means() -> None:
    silent = [line for line in operations_page().splitlines() if line.endswith("|  |")]

    assert silent == []


def test_no_effect_and_no_param_is_missing() -> None:
    page = operations_page()

    for form in effect_forms():
        assert f"### `{get_args(form.model_fields['type'].annotation)[0]}`" in page
    for name in KINDS:
        section = page.split(f"### Kind `{name}`")[1].split("\n### Kind ")[0]
        own = set(kind_named(name).params.model_fields) - {"effects", "timeout_s"}
        assert {f"`{field.removesuffix('_')}`" for field in own} <= set(
            re.findall(r"^\| (`\w+`) \|", section, re.MULTILINE)
        )


def test_each_name_in_scope_is_listed() -> None:
    nobody = {"user": {"name": "Ann"}, "char": {"name": "Bo"}}
    seen = Situation(people=nobody, chat={}, run={}, now_us=0, messages=(), text="", reply="").names()
    listed = {name for names, _ in NAMES for name in re.findall(r"`(\w+)`", names)}

    assert listed == {*seen, "art", "deps", "value"}


def test_each_code_of_a_failed_operation_is_listed() -> None:
    listed = {name.strip("`") for name in ERRORS}
    raised = {code for file in HOME.rglob("*.py") for code in codes_in(file)}

    assert {"max_cost", "too_large", "tool_error"} <= raised
    assert raised <= listed


def test_the_profiles_in_the_guide_are_valid() -> None:
    guide = (ROOT / "docs/guides/operations.md").read_text(encoding="utf-8")
    shown = [OperationProfile.parse(one.code) for one in blocks(guide) if one.language == "json"]

    assert [one.profile_id for one in shown] == ["moods", "shop", "judge"]


def test_the_shop_of_the_guide_searches_and_keeps_a_feed(tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/operations.md").read_text(encoding="utf-8")
    shop = [OperationProfile.parse(one.code) for one in blocks(guide) if one.language == "json"][1]

    async def scenario() -> None:
        model = ScriptedModel(["We sell lamps.", "Blue ones."])
        with Kernel.open(tmp_path / "s.db", models={"m": model}) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=shop)
            said = await session.generate("The blue lamps are nice.")
            asked = await session.generate("Which lamps are blue?")

            for skipped in ("earlier", "pay_back"):
                assert said.operations[skipped] == "skipped"
            assert (asked.status, asked.operations["earlier"]) == ("completed", "done")
            assert len(await session.art("turns")) == 2
            assert "Said before:" in "".join(one.text for one in model.requests[1].messages)

    asyncio.run(scenario())


def codes_in(file: Path) -> set[str]:
    """The first arguments of all `OperationFailed(...)` that are written out."""
    return {
        call.args[0].value
        for call in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "OperationFailed"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }
