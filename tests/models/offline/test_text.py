"""Questions about texts: passages are quoted word for word, with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from artelier.errors import OfflineCannot
from artelier.models.offline.text import split
from tests.models.offline.conftest import Open
from tests.models.offline.driving import Workspace


@pytest.mark.parametrize(
    ("question", "quote", "line"),
    [
        ("What does the policy say about late returns?", "Late returns cost 20 cents per day.", 7),
        ("What do the notes mention about students?", "- Students pay no reservation fee.", 9),
        ("What is written about lost books?", "The fee for a lost book is its price", 7),
        ("According to the policy, how many books may members borrow?", "up to five books", 3),
        ("What does policy.md say on renewals?", "- Renewals are free.", 10),
    ],
)
def test_the_best_passage_is_quoted_word_for_word(
    open_world: Open, question: str, quote: str, line: int
) -> None:
    world, workspace = open_world("library")

    text = workspace.ask(question).text

    assert quote in text
    assert f"`policy.md`, line {line}:" in text
    block = text.split("```text\n")[1].split("\n```")[0]
    assert block in world.files["policy.md"]


def test_a_text_clause_and_a_table_clause_share_one_report(open_world: Open) -> None:
    _, workspace = open_world("library")

    asked = workspace.ask("How many loans are there, and what does the policy say about fees?")

    assert "**400**" in asked.text
    assert "reservation fee" in asked.text
    assert [call.name for call in asked.messages[2].tool_calls] == ["describe_tables", "list_dir"]


def test_passages_are_found_in_long_and_many_files(tmp_path: Path) -> None:
    for number in range(30):
        text = f"# Page {number}\n\n" + "Nothing of interest stands here.\n\n" * 20
        (tmp_path / f"page{number:02d}.md").write_text(text)
    long = "Filler without meaning.\n\n" * 2_000 + "The zebra crossing is closed on Sundays.\n"
    (tmp_path / "roads.txt").write_text(long)

    text = Workspace(tmp_path).ask("What do the files say about the zebra crossing?").text

    assert "The zebra crossing is closed on Sundays." in text
    assert "`roads.txt`, line 4001:" in text


def test_a_passage_cannot_leave_its_fence(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("The dragon ``` says:\n# Hello\n```sql\n")

    text = Workspace(tmp_path).ask("What do the notes say about the dragon?").text

    assert "````text\nThe dragon ``` says:\n````" in text


@pytest.mark.parametrize(
    ("question", "reason"),
    [
        ("What does the policy say?", "names no topic"),
        ("What does the policy say about parking meters?", "no passage"),
    ],
)
def test_a_topic_that_is_not_there_is_refused(open_world: Open, question: str, reason: str) -> None:
    _, workspace = open_world("library")

    with pytest.raises(OfflineCannot, match=reason):
        workspace.ask(question)


def test_passages_know_their_line_and_heading() -> None:
    text = "# A\n\nOne\ntwo\n\n## B\n- first\n- second\n  more\n"

    found = [(one.line, one.heading, one.text) for one in split("a.md", text)]

    assert found == [(3, "A", "One\ntwo"), (7, "B", "- first"), (8, "B", "- second\n  more")]
