"""The catalogue: one line per skill, a handful of tools, and everything else on request."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec
import pytest

from artelier import Kernel, tool
from artelier.errors import InvalidRequest, ToolFailed
from artelier.tokens import estimate_tokens
from artelier.tools import Tool
from artelier.tools.skills import Listing, SkillCatalog, section_text
from artelier_lab.skills_fixture import fifty_tools

from .stage import Server, call, call_port, play, statuses, write_skill


@tool(side_effect=True, grant="mail:send")
def send_mail(to: str, subject: str, urgency: Literal["low", "high"] = "low") -> str:
    """Send a mail. It can't be called back.

    Ask a person first if it goes to more than ten people.
    """
    return f"sent to {to}"


def add(a: int, b: int) -> int:
    """Add two whole numbers."""
    return a + b


def with_kernel(scenario: Any) -> Any:
    async def opened() -> Any:
        with Kernel.open(":memory:") as kernel:
            return await scenario(kernel)

    return play(opened())


def test_listing_has_one_line_per_skill_by_name():
    async def scenario(kernel: Kernel) -> Listing:
        return await SkillCatalog([send_mail, add]).listing(kernel.services, "acme")

    listing = with_kernel(scenario)

    assert [one.line for one in listing.skills] == ["add: Add two whole numbers", "send_mail: Send a mail"]
    assert section_text(listing).splitlines()[-2:] == [
        "- add: Add two whole numbers",
        "- send_mail: Send a mail",
    ]


def test_a_journaled_listing_gives_the_same_section_without_any_source():
    async def scenario(kernel: Kernel) -> Listing:
        return await SkillCatalog([send_mail, add]).listing(kernel.services, "acme")

    listing = with_kernel(scenario)

    again = msgspec.json.decode(listing.canonical(), type=Listing)
    assert again == listing
    assert section_text(again) == section_text(listing)


def test_load_gives_the_whole_docstring_the_exact_schema_and_an_example_that_fits():
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog([send_mail])
        await catalog.listing(kernel.services, "acme")
        return await call(catalog, kernel, "load_skill", skill_name="send_mail")

    value = with_kernel(scenario)

    assert value["skill"] == value["tool"] == "send_mail"
    assert value["loaded"] is True
    assert "Ask a person first" in value["instructions"]
    assert value["parameters"] == send_mail.schema.parameters
    assert send_mail.validate(value["example"]) == value["example"]
    assert value["call_with"] == "use_skill(name, arguments)"
    assert value["files"] == []
    assert len(value["hash"]) == 64


def test_meta_tools_have_no_side_effects_and_ports_keep_what_the_kernel_guards():
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog([send_mail, add])
        return catalog.meta_tools(kernel.services), dict(catalog.ports())

    meta, ports = with_kernel(scenario)

    assert [one.name for one in meta] == ["load_skill", "use_skill", "unload_skill"]
    assert not any(one.side_effect for one in meta)
    assert ports["send_mail"] is send_mail
    assert (ports["send_mail"].grant, ports["send_mail"].side_effect) == ("mail:send", True)
    assert ports["add"].side_effect, "a plain function is not assumed to be harmless"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("send_mial", "Did you mean `send_mail`"),
        ("mail", "send_mail"),
        ("zzzzzz", "Use a name of the list"),
        ("x" * 100_000, "Use a name of the list"),
        ("", "Use a name of the list"),
    ],
)
def test_unknown_skill_is_a_readable_error_with_near_names(name: str, says: str):
    async def scenario(kernel: Kernel) -> None:
        catalog = SkillCatalog([send_mail, add])
        await catalog.listing(kernel.services, "acme")
        for meta, argument in (
            ("load_skill", "skill_name"),
            ("use_skill", "name"),
            ("unload_skill", "skill_name"),
        ):
            with pytest.raises(ToolFailed) as caught:
                await call(catalog, kernel, meta, **{argument: name})
            assert says in str(caught.value)
            assert len(str(caught.value)) < 500

    with_kernel(scenario)


def test_unload_says_so():
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog([add])
        return await call(catalog, kernel, "unload_skill", skill_name="add")

    assert with_kernel(scenario) == {"skill": "add", "unloaded": True}


def test_a_process_that_resumes_a_run_knows_skills_without_a_listing_of_its_own():
    async def scenario(kernel: Kernel) -> Any:
        server = Server(Tool(add))
        await SkillCatalog([server]).listing(kernel.services, "acme")
        later = SkillCatalog([server])
        before = set(later.ports())
        value = await call(later, kernel, "load_skill", skill_name="add")
        return before, value["tool"], set(later.ports())

    assert with_kernel(scenario) == (set(), "add", {"add"})


def test_a_catalogue_moves_to_another_kernel():
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog([add])
        await catalog.listing(kernel.services, "acme")
        with Kernel.open(":memory:") as other:
            await catalog.listing(other.services, "acme")
            return [event.kind async for event in other.events()]

    assert with_kernel(scenario) == ["tenant.created", "skill.pinned"]


def test_search_is_offered_only_with_more_than_thirty_skills():
    def numbered(count: int) -> list[Any]:
        return fifty_tools()[:count]

    async def scenario(kernel: Kernel) -> Any:
        return [
            [one.name for one in SkillCatalog(numbered(count)).meta_tools(kernel.services)]
            for count in (30, 31)
        ]

    few, many = with_kernel(scenario)

    assert "search_skills" not in few
    assert "search_skills" in many


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("refund a customer's payment", "stripe_create_refund"),
        ("who is on call tonight", "paging_list_on_call"),
        ("open a pull request", "github_create_pull_request"),
        ("explain a slow SQL query plan", "postgres_explain_query"),
        ("reply in a slack thread", "slack_get_thread_replies"),
    ],
)
def test_search_finds_the_skill_that_is_meant(query: str, first: str):
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog(fifty_tools())
        return await call(catalog, kernel, "search_skills", query=query)

    found = [one["name"] for one in with_kernel(scenario)["skills"]]

    assert first in found[:2], found
    assert len(found) <= 10


def test_search_without_a_match_is_empty():
    async def scenario(kernel: Kernel) -> Any:
        catalog = SkillCatalog(fifty_tools())
        return await call(catalog, kernel, "search_skills", query="xylophone " * 1000)

    assert with_kernel(scenario)["skills"] == []


def test_fifty_tools_make_a_first_prompt_at_least_85_percent_smaller():
    async def scenario(kernel: Kernel) -> tuple[int, int]:
        tools = fifty_tools()
        catalog = SkillCatalog(tools)
        listing = await catalog.listing(kernel.services, "acme")
        section = estimate_tokens(section_text(listing))
        meta = catalog.meta_tools(kernel.services)
        shown = section + sum(estimate_tokens(one.schema.canonical()) for one in meta)
        return shown, sum(estimate_tokens(one.schema.canonical()) for one in tools)

    shown, whole = with_kernel(scenario)

    assert len(fifty_tools()) == 50
    assert shown <= 0.15 * whole, f"{shown} of {whole} tokens"


def test_tools_of_one_name_from_two_servers_get_names_of_their_own():
    async def scenario(kernel: Kernel) -> Any:
        def add_notes(a: int) -> str:
            """Add notes to a page."""
            return "notes"

        one = Server(Tool(add_notes, name="add"), name="mcp:notes")
        catalog = SkillCatalog([one, add])
        listing = await catalog.listing(kernel.services, "acme")
        ports = catalog.ports()
        results = [await call_port(ports["add"], a=1, b=2), await call_port(ports["notes__add"], a=1)]
        one.has.clear()
        later = await catalog.listing(kernel.services, "acme")
        return statuses(listing), results, statuses(later), ports["notes__add"].schema.name

    seen, results, later, shown = with_kernel(scenario)

    assert seen == {"add": "active", "notes__add": "active"}
    assert results == [3, "notes"]
    assert shown == "notes__add"
    assert later == {"add": "active"}


def test_a_name_that_became_free_is_not_given_to_another_servers_tool():
    async def scenario(kernel: Kernel) -> Any:
        first, second = Server(Tool(add), name="mcp:a"), Server(Tool(add), name="mcp:b")
        catalog = SkillCatalog([first, second])
        await catalog.listing(kernel.services, "acme")
        first.has.clear()
        return statuses(await catalog.listing(kernel.services, "acme"))

    assert with_kernel(scenario) == {"b__add": "active"}


def test_a_server_that_does_not_answer_keeps_its_skills_and_is_named():
    async def scenario(kernel: Kernel) -> Any:
        server = Server(Tool(add))
        catalog = SkillCatalog([server, send_mail])
        await catalog.listing(kernel.services, "acme")
        server.is_down = True
        return await catalog.listing(kernel.services, "acme")

    listing = with_kernel(scenario)

    assert statuses(listing) == {"add": "active", "send_mail": "active"}
    assert listing.silent == ("mcp:desk",)


@pytest.mark.parametrize(
    "sources",
    [[add, add], [Server(name="mcp:a"), Server(name="mcp:a")], [42], ["/no/such/folder"]],
    ids=["two tools", "two servers", "a number", "no folder"],
)
def test_what_is_no_set_of_sources_is_refused_at_the_door(sources: list[Any]):
    with pytest.raises(InvalidRequest):
        SkillCatalog(sources)


def test_lines_are_cut_at_a_word_and_never_hold_markup_or_control_characters():
    def odd() -> str:
        """x"""
        return ""

    description = "Shows <b>bold</b> text " + "and goes on for very long " * 10
    server = Server(Tool(odd, description=description))

    async def scenario(kernel: Kernel) -> Any:
        return await SkillCatalog([server]).listing(kernel.services, "acme")

    line = with_kernel(scenario).skills[0].line
    assert line.startswith("odd: Shows ‹b›bold‹/b› text and goes")
    assert line.endswith("…")
    assert len(line) <= 5 + 80


def test_a_use_before_loading_says_that_nothing_was_executed(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        raise AssertionError("loading must not run it")

    async def scenario() -> tuple[Any, Any, Any, Any]:
        with Kernel.open(":memory:") as kernel:
            catalog = SkillCatalog([add, write_skill(tmp_path)])
            await catalog.listing(kernel.services, "acme")
            return (
                await call(catalog, kernel, "load_skill", skill_name="add"),
                await call(catalog, kernel, "use_skill", name="add", arguments={"a": 1, "b": 2}),
                await call(catalog, kernel, "load_skill", skill_name="pdf-forms"),
                await call(catalog, kernel, "use_skill", name="pdf-forms"),
            )

    loaded, used, read, followed = play(scenario())

    assert {**loaded, "executed": False, "note": used["note"]} == used
    assert used["loaded"] is True and used["call_with"] == "use_skill(name, arguments)"
    assert "Call use_skill again to run it" in used["note"]
    assert read["call_with"] is followed["call_with"] is None
    assert followed["executed"] is False
    assert "instructions" in followed["note"] and "use_skill" not in followed["note"]
