"""Large profiles: what a check costs grows with their length, and it is made beside the event loop."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel
from artelier.artifacts import register_kind
from artelier.artifacts.kinds import kind_named as artifact_kind
from artelier.errors import AccessDenied, InvalidArtifact
from artelier.operations.kinds import kind_named
from artelier.operations.profile.operation_profile import mistakes_in
from artelier.operations.profile.rules import hidden_values
from tests.operations.profiles import template

Waits = list[tuple[set[int], set[int]]]
"""Of each operation: those that it waits for, and those whose values it shows."""

GRAPHS = st.integers(1, 7).flatmap(
    lambda count: st.lists(
        st.tuples(st.sets(st.integers(0, count - 1)), st.sets(st.integers(0, count - 1))),
        min_size=count,
        max_size=count,
    )
)


def made(waits: Waits) -> dict[str, Any]:
    """Build the profile of a graph; the value of its last operation is hidden."""
    operations = [
        template(
            f"op{number}",
            "".join(f"{{{{ deps.op{one} }}}}" for one in sorted(shows)),
            depends_on=[f"op{one}" for one in sorted(needs)],
        )
        for number, (needs, shows) in enumerate(waits)
    ]
    writer = {"type": "artifact.upsert", "tag": "secret", "usage": "internal"}
    operations[-1]["params"]["effects"].append(writer)
    return {"profile_id": "p", "operations": operations}


def reached(of: Mapping[int, Collection[int]], *starts: int) -> set[int]:
    """What can be reached, those it begins with only by a way round."""
    seen, left = set[int](), [one for start in starts for one in of[start]]
    while left:
        if (one := left.pop()) not in seen:
            seen.add(one)
            left += of[one]
    return seen


@given(GRAPHS)
def test_what_is_read_must_be_waited_for_however_far_and_in_whatever_ring(waits: Waits) -> None:
    needs = {number: one for number, (one, _) in enumerate(waits)}
    told = {
        (one["path"], one["message"].partition(" ")[0])
        for one in mistakes_in(made(waits))
        if one["code"] == "unknown_dependency"
    }

    assert told == {
        (f"operations[{number}].params.template", f'"deps.op{one}"')
        for number, (_, shows) in enumerate(waits)
        for one in shows - reached(needs, number)
    }


@given(GRAPHS)
def test_what_is_made_from_a_hidden_value_is_hidden_and_each_text_is_read_once(waits: Waits) -> None:
    numbers = range(len(waits))
    shown_by = {one: {number for number in numbers if one in waits[number][1]} for one in numbers}
    last, plain, asked = len(waits) - 1, kind_named("template"), list[Any]()

    def shows(params: Any) -> str | None:
        asked.append(params)
        return plain.shows(params)

    kind = replace(plain, shows=shows)
    sources = [
        (one["operation_id"], kind, plain.params.model_validate(one["params"]))
        for one in made(waits)["operations"]
    ]

    assert hidden_values(sources, {"secret"}, "prompt") == {
        f"op{one}" for one in {last, *reached(shown_by, last)}
    }
    assert len(asked) == len(waits)


def test_what_a_profile_costs_grows_with_its_length_alone() -> None:
    """Its operations wait for a hundred before them: each of their ways to the first was gone."""
    operations = [
        template(f"op{n}", "x", depends_on=[f"op{m}" for m in range(max(0, n - 95), n)]) for n in range(200)
    ]
    values, calls = sum(len(one["depends_on"]) for one in operations), 0

    def count(frame: Any, event: str, arg: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        assert mistakes_in({"profile_id": "p", "operations": operations}) == ()
    finally:
        sys.setprofile(None)
    assert calls < 30 * values


def test_a_large_artifact_is_checked_once_beside_the_event_loop(tmp_path: Path) -> None:
    """Whoever may not write it is told of that alone."""
    threads: list[int] = []
    plain = artifact_kind("report")

    def check(content: object) -> None:
        threads.append(threading.get_ident())
        if content == "x" * 40_000:
            raise InvalidArtifact("not this")

    async def scenario() -> None:
        with Kernel.open(tmp_path / "state.db") as kernel:
            ada, eve = (kernel.for_tenant().as_principal(name).artifacts for name in ("ada", "eve"))
            await ada.write("r", kind="report", content="y" * 40_000)
            with pytest.raises(InvalidArtifact, match="not this"):
                await ada.write("r", content="x" * 40_000)
            with pytest.raises(AccessDenied):
                await eve.write("r", content="x" * 40_000)

    register_kind(replace(plain, check=check), replace=True)
    try:
        asyncio.run(scenario())
    finally:
        register_kind(plain, replace=True)
    assert len(threads) == 3 and threading.get_ident() not in threads
