"""A goal as a plan: who looks things up, who writes, and by what each output is judged.

Each question that stands for itself becomes a task of its own; one more task writes what the goal asks for.
The criteria are those that can be judged by rule.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from artelier.errors import OfflineCannot
from artelier.models.offline.missions.goal import Asked, Goal, goal_from, questions_in, short
from artelier.models.offline.missions.prompt import Prompt
from artelier.models.offline.overview import is_overview
from artelier.models.offline.question import question_from
from artelier.models.offline.text import ENDINGS
from artelier.models.offline.words import tokens

TABLE_TOOLS = ("describe_tables", "query_sql")
TEXT_TOOLS = ("list_dir", "read_file")
READER = "read_artifact"

ITERATIONS = 5
WRITING_ITERATIONS = 3
TEXTS_MAX = 8
"""Text files that one task reads one after the other."""

_PATH = re.compile(r"^- (.{1,400}?) \(\d+ bytes\)$", re.MULTILINE)
_TAKEN = ("analyst", "reader", "writer", "report", "letter", "result")
_ARTICLE = {"email": "an email"}
_PLAIN = frozenset(
    "which what how who when where the a an of in on at by for to from and or is are was were do does did"
    " has have had many much most least there be with per each what's that this show list give tell".split()
)


def plan(prompt: Prompt) -> dict[str, Any]:
    """The plan as JSON data.

    Errors: `OfflineCannot` for a goal that asks nothing, or a workspace without tools to look anything up.
    """
    text = _goal_text(prompt)
    goal = goal_from(text)
    asked = questions_in(goal)
    tools = list(prompt.tools)
    if not _can_read(tools):
        raise OfflineCannot(
            "the offline model can only look things up, and no tool is there to do so",
            expected=f"{' and '.join(TABLE_TOOLS)}, or list_dir and read_file",
            got=", ".join(tools[:30]) or "no tools",
            hint="Give a workspace with `--workspace DIR`.",
        )
    texts = [path for path in _PATH.findall(prompt.section("Workspace")) if path.lower().endswith(ENDINGS)]
    agents: dict[str, dict[str, Any]] = {}
    tasks = [
        _looking(one, slug, agents, tools=tools, texts=len(texts))
        for one, slug in zip(asked, _slugs(asked, goal), strict=True)
    ]
    agents["writer"] = _writer(goal, tools)
    tasks.append(_writing(goal, asked, [task["slug"] for task in tasks]))
    return {"agents": list(agents.values()), "tasks": tasks, "membranes": []}


def _goal_text(prompt: Prompt) -> str:
    """Return what stands below the heading of the goal, headings of its own included."""
    for message in prompt.request.messages:
        if message.role == "user" and message.text.startswith("## Goal\n"):
            ends = [message.text.rfind(f"\n\n## {title}\n") for title in ("Workspace", "Tools")]
            end = min((one for one in ends if one >= 0), default=len(message.text))
            return message.text[len("## Goal\n") : end].strip()
    return prompt.section("Goal")


def _can_read(tools: Sequence[str]) -> bool:
    return set(TABLE_TOOLS) <= set(tools) or {"list_dir", "read_file"} <= set(tools)


def _looking(
    asked: Asked, slug: str, agents: dict[str, dict[str, Any]], *, tools: Sequence[str], texts: int
) -> dict[str, Any]:
    """The task that answers one question; its agent is added if it is not there yet."""
    name = "reader" if asked.of_text else "analyst"
    wanted = TEXT_TOOLS if asked.of_text else TABLE_TOOLS
    wanted = wanted if set(wanted) <= set(tools) else (*TABLE_TOOLS, *TEXT_TOOLS)
    if not asked.of_text and any(map(is_overview, question_from(asked.text).clauses)):
        wanted = (*wanted, "list_dir")
    if asked.of_text and texts > TEXTS_MAX:
        wanted = (*wanted, "search_text")
    if name not in agents:
        agents[name] = {
            "slug": name,
            "name": name.capitalize(),
            "role": _ROLES[name],
            "tools": [tool for tool in wanted if tool in tools],
        }
    files = min(texts, TEXTS_MAX)
    return {
        "slug": slug,
        "goal": asked.text,
        "success_criteria": "\n".join(
            [
                f"- Answers the question: {asked.text}",
                "- Quotes the passages word for word."
                if asked.of_text
                else "- Says the answer in words, with the figures that the data gives.",
                "- Names the sources.",
            ]
        ),
        "agent": name,
        "depends_on": [],
        "max_iterations": max(ITERATIONS, files + 3 if asked.of_text else ITERATIONS),
    }


_ROLES: Mapping[str, str] = {
    "analyst": "You are an analyst. You look figures up in the tables of the workspace, and write down what"
    " they say, where they come from and how they were computed.",
    "reader": "You are a reader. You find the passages of the workspace's texts that answer a question, and"
    " quote them word for word.",
    "writer": "You are a writer. You make what was asked for out of the findings of others, add no figure of"
    " your own, and name the sources.",
}


def _writer(goal: Goal, tools: Sequence[str]) -> dict[str, Any]:
    return {
        "slug": "writer",
        "name": "Writer",
        "role": _ROLES["writer"],
        "tools": [tool for tool in (READER,) if tool in tools],
    }


def _writing(goal: Goal, asked: Sequence[Asked], before: Sequence[str]) -> dict[str, Any]:
    form = "report" if goal.form == "findings" else goal.form
    questions = " ".join(one.text for one in asked)
    what = "a JSON document" if form == "json" else _ARTICLE.get(form, f"a {form}")
    whom = f" to {goal.whom}" if goal.whom else ""
    criteria = [f"- Answers the question: {one.text}" for one in asked]
    criteria += ["- Is valid JSON."] if form == "json" else []
    criteria += ["- Contains a table."] if form == "table" else []
    criteria += [f"- Is addressed to {goal.whom}."] if goal.whom else []
    criteria.append("- Names the sources.")
    slug = form if form not in ("json", "findings") else "result"
    return {
        "slug": slug if slug not in before else f"final-{slug}",
        "goal": f"Write {what}{whom} that answers: {questions}",
        "success_criteria": "\n".join(criteria),
        "agent": "writer",
        "depends_on": list(before),
        "max_iterations": WRITING_ITERATIONS + len(before),
    }


def _slugs(asked: Sequence[Asked], goal: Goal) -> list[str]:
    """A name for each task, from the words of its question."""
    if len(asked) == 1:
        return ["passages" if asked[0].of_text else "figures"]
    found: list[str] = []
    for number, one in enumerate(asked, start=1):
        words = [
            word.lower
            for word in tokens(short(one.text, chars_max=200))
            if word.kind == "word"
            and word.lower.isascii()
            and word.lower.isalnum()
            and word.lower not in _PLAIN
        ]
        slug = "-".join(words[:3])[:32].strip("-")
        taken = {*found, *_TAKEN, goal.form}
        found.append(slug if slug and slug not in taken else f"question-{number}")
    return found
