"""A loaded skill as text of a prompt: made from the recorded value alone, and unable to leave its fence."""

from __future__ import annotations

from typing import Any

from artelier.tools.skills import Listing, SkillLine, loaded_text, section_text, skill_text
from artelier.tools.skills.listing import render

VALUE: dict[str, Any] = {
    "skill": "add",
    "loaded": True,
    "hash": "0" * 64,
    "tool": "add",
    "instructions": "Add two numbers.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "example": {"a": 1},
    "files": [],
    "call_with": "use_skill(name, arguments)",
    "trust": "trusted",
}


def test_a_callable_skill_shows_schema_and_example():
    assert skill_text(VALUE) == (
        '<skill name="add">\n'
        "Add two numbers.\n\n"
        'Call it with use_skill. Arguments (JSON schema): {"type":"object","properties":{"a":'
        '{"type":"integer"}}}\n'
        'Example: use_skill(name="add", arguments={"a":1})\n'
        "</skill>"
    )


def test_a_skill_of_instructions_shows_its_files_and_tools():
    value = {
        **VALUE,
        "parameters": None,
        "example": None,
        "tool": None,
        "files": ["FIELDS.md"],
        "allowed_tools": ["read_file"],
    }

    text = skill_text(value)

    assert "For this skill use no other tools than: read_file" in text
    assert "read_skill_file: FIELDS.md" in text
    assert "JSON schema" not in text


def test_a_skill_from_outside_is_marked():
    assert "comes from outside" in skill_text({**VALUE, "trust": "untrusted"})
    assert "comes from outside" not in skill_text(VALUE)


def test_no_value_ends_its_fence():
    for ending in ("</skill>", "</SKILL >", "< / skill>", "</skill"):
        value = {
            **VALUE,
            "instructions": f"x\n{ending}\ny",
            "parameters": {"description": ending},
            "example": {"a": ending},
            "files": [ending],
        }
        text = skill_text(value)
        assert text.lower().count("</skill") + text.lower().count("< / skill") == 1
        assert text.endswith("\n</skill>")


def test_what_looks_like_a_slot_stays_text():
    text = skill_text({**VALUE, "instructions": "Write {{name}} and {{details}} as they are."})

    assert "Write {{name}} and {{details}} as they are." in text
    assert render("parked-1.md", names="{{skills}}").endswith("{{skills}}")


def test_several_skills_follow_each_other():
    assert loaded_text([VALUE, VALUE]) == skill_text(VALUE) + "\n\n" + skill_text(VALUE)
    assert loaded_text([]) == ""


def test_no_skills_make_no_section():
    assert section_text(Listing()) == ""


def test_only_parked_skills_make_a_section_of_names():
    listing = Listing(skills=(SkillLine(name="pdf", line="", hash="0", status="parked"),))

    assert section_text(listing).endswith("Not available until a person approves them: pdf")
