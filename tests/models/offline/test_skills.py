"""Tools behind skills: loaded by name, then used, with the same figures as when they are offered."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier.errors import ArtelierError, OfflineCannot
from artelier.tools.workspace.toolset import workspace_tools
from tests.models.offline.driving import Workspace, context_of
from tests.models.offline.talking import SKILL_TOOLS, TEXT, Talk, schema_of

SALES = Path(__file__).resolve().parents[3] / "examples" / "data" / "sales"
HEADLINE = "Which three regions sold most, and what changed from Q2 to Q3? Write a report."


class Shelf:
    """Workspace tools as skills, as an agent's loop serves them."""

    def __init__(self, root: Path) -> None:
        self.tools: dict[str, Any] = {tool.name: tool for tool in workspace_tools(root, writable=False)}
        self.loaded: set[str] = set()

    def listing(self) -> str:
        lines = [f"- {name}: {tool.schema.description.splitlines()[0]}" for name, tool in self.tools.items()]
        return "# Skills\n\nOne line per skill. Call `load_skill` first.\n\n" + "\n".join(lines)

    def load_skill(self, skill_name: str) -> dict[str, Any]:
        tool = self.tools[skill_name]
        self.loaded.add(skill_name)
        return {
            "skill": skill_name,
            "loaded": True,
            "hash": "0" * 64,
            "tool": skill_name,
            "instructions": tool.schema.description,
            "parameters": tool.schema.parameters,
            "example": {},
        }

    def use_skill(self, name: str, arguments: dict[str, Any]) -> Any:
        if name not in self.loaded:
            return self.load_skill(name)
        tool = self.tools[name]

        async def call() -> Any:
            try:
                return await tool.call(tool.validate(arguments), context_of(name))
            except ArtelierError as error:
                return {"error": error.to_wire()}

        return msgspec.json.decode(msgspec.json.encode(asyncio.run(call())))

    def talk(self, **more: Any) -> Talk:
        functions = {"load_skill": self.load_skill, "use_skill": self.use_skill}
        return Talk(tools=SKILL_TOOLS, functions=functions, system=["You work.", self.listing()], **more)


@pytest.fixture(scope="module")
def shelf_root() -> Path:
    return SALES


def test_the_headline_has_the_same_figures_through_skills(shelf_root: Path) -> None:
    native = Workspace(shelf_root).ask(HEADLINE).text
    talk = Shelf(shelf_root).talk()

    reply = talk.say(HEADLINE)

    assert reply.text == native
    assert talk.called[0] == "load_skill"
    loads = [call.arguments["skill_name"] for call in talk.calls if call.name == "load_skill"]
    assert sorted(loads) == ["describe_tables", "query_sql"]
    assert {call.arguments["name"] for call in talk.calls if call.name == "use_skill"} == set(loads)


def test_a_text_question_reads_files_through_skills(shelf_root: Path) -> None:
    native = Workspace(shelf_root).ask("What do the notes say about returns?").text

    assert Shelf(shelf_root).talk().say("What do the notes say about returns?").text == native


def test_a_skill_whose_loading_was_compacted_is_used_at_once(shelf_root: Path) -> None:
    shelf = Shelf(shelf_root)
    shelf.loaded = set(shelf.tools)
    talk = shelf.talk()
    loaded = "\n\n".join(f'<skill name="{name}">\nx\n</skill>' for name in shelf.tools)
    talk.system = [*talk.system, f"## Loaded skills\n\nYou loaded these skills.\n\n{loaded}"]

    reply = talk.say("What is the total revenue?")

    assert "**" in reply.text
    assert set(talk.called) == {"use_skill"}


def test_a_use_that_only_loaded_the_skill_is_made_again(shelf_root: Path) -> None:
    shelf = Shelf(shelf_root)
    talk = shelf.talk()
    loaded = "\n\n".join(f'<skill name="{name}">\nx\n</skill>' for name in shelf.tools)
    talk.system = [*talk.system, f"## Loaded skills\n\n{loaded}"]  # a prompt that is wrong

    reply = talk.say("What is the total revenue?")

    assert "**" in reply.text


def test_a_native_tool_is_preferred_to_its_skill(shelf_root: Path) -> None:
    talk = Shelf(shelf_root).talk()
    talk.tools = [*talk.tools, schema_of("describe_tables")]
    talk.functions = {**talk.functions, "describe_tables": lambda: {"tables": [], "skipped": []}}

    with pytest.raises(OfflineCannot, match="no table"):
        talk.say("What is the total revenue?")
    assert talk.called == ["describe_tables"]


def test_skills_that_are_not_listed_are_searched_for(shelf_root: Path) -> None:
    shelf = Shelf(shelf_root)
    talk = shelf.talk()
    talk.system = ["You work.", "# Skills\n\nThere are many; search for them."]
    talk.tools = [*talk.tools, schema_of("search_skills", "Find skills.", query=TEXT)]

    def search_skills(query: str) -> dict[str, Any]:
        found = [{"name": name, "description": "x"} for name in shelf.tools if query in name]
        return {"query": query, "skills": found}

    talk.functions = {**talk.functions, "search_skills": search_skills}

    assert "**" in talk.say("What is the total revenue?").text
    assert talk.called[:2] == ["search_skills", "search_skills"]


@pytest.mark.parametrize(
    ("answer", "limit"),
    [
        ({"error": {"code": "tool_failed", "message": "the skill is parked"}}, 1),
        ({"skill": "describe_tables", "loaded": False}, 1),
        ("not json", 3),
        ("[" * 50_000, 3),
    ],
    ids=["error", "not loaded", "text", "deep"],
)
def test_a_skill_that_does_not_load_ends_the_attempt(shelf_root: Path, answer: Any, limit: int) -> None:
    talk = Shelf(shelf_root).talk()
    talk.functions = {**talk.functions, "load_skill": lambda skill_name: answer}

    with pytest.raises(OfflineCannot):
        talk.say("What is the total revenue?")
    assert len(talk.calls) <= limit


def test_a_list_of_skills_counts_only_where_skills_can_be_loaded(shelf_root: Path) -> None:
    talk = Shelf(shelf_root).talk()
    talk.tools = []

    with pytest.raises(OfflineCannot, match="needs the tool describe_tables"):
        talk.say("What is the total revenue?")
