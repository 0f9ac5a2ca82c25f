"""The contracts of a mission: a plan for a goal, the decisions of a task, and the content of its artifact.

A goal becomes a task that looks its questions up, and one that writes what was asked for from the findings.
All figures and passages stand as they were found; nothing is rephrased.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from artelier.errors import OfflineCannot
from artelier_offline.conversation import Desk, Prompt, Shown, Wanted
from artelier_offline.query import Part
from artelier_offline.question import ENDINGS, OVERVIEW, answers_to, clauses_of, is_about_text, is_overview
from artelier_offline.report import ROWS_SHOWN, document
from artelier_offline.tables import quoted
from artelier_offline.words import LABEL, code, escaped, flat, listed

TABLE_TOOLS = ("describe_tables", "query_sql")
TEXT_TOOLS = ("list_dir", "read_file")
READER = "read_artifact"
ITERATIONS = 5
WRITING_ITERATIONS = 4
PAGE_CHARS = 20_000
REASON_CHARS_MAX = 1_000
VERSIONS_MAX = 2
"""An output that was judged insufficient is written once more."""
BYTES_PER_TOKEN = 3

TITLE_CHARS_MAX = 60
_KIND = r"(?:report|summary|table|list)"
_WRITE = (
    r"(?:please\s+)?(?:write|draft|make|create|prepare|give|produce|send)\s+(?:me\s+|us\s+)?(?:an?\s+|the\s+)?"
    r"(?:short\s+|brief\s+)?"
)
_LEADING = re.compile(
    rf"\W*{_WRITE}{_KIND}\s*(?::|(?:that|which) (?:answers|says|tells|shows)|on|about|of)\s*:?\s*", re.I
)
_TRAILING = re.compile(
    rf"(?:[,;.?]\s*|\s+)(?:and\s+|then\s+)*{_WRITE}{_KIND}(?:\s+(?:about|on) (?:it|this))?\s*[.!]*\s*$", re.I
)
_QUOTE = re.compile(
    r"(?<=[?.!])\s*(?:please\s+)?quote (?:the|that|its) (?:sentence|passage|line)s?[.!]*\s*$", re.I
)
_ROLES: Mapping[str, str] = {
    "analyst": "You are an analyst. You look figures up in the tables of the workspace, and write down what"
    " they say, where they come from and how they were computed.",
    "reader": "You are a reader. You find the passages of the workspace's texts that answer a question, and"
    " quote them word for word.",
    "writer": "You are a writer. You make what was asked for out of the findings of others, add no figure of"
    " your own, and name the sources.",
}
_WHY = {
    "describe_tables": "It is not known yet which tables there are.",
    "list_dir": "It is not known yet which files there are.",
    "read_file": "The text has not been read yet.",
    READER: "Only a part of the findings has been shown.",
}
_SIDES = re.compile(r"\bfrom several sides\b|\bseveral tools\b|\bby a second way\b", re.I)
"""Of a policy: the data is looked at once more, in another way."""
_TEXT_PATH = re.compile(r"^- (.{1,400}?) \(\d+ bytes\)$", re.M)
_SIZE = re.compile(r"^(\S{1,200}) \([^\n]*, (\d{1,9}) bytes\)$", re.M)
_TOO_LARGE = re.compile(r"\bat most (\d[\d_]{0,9}) bytes\b")
_TITLE = re.compile(r"\b(?:title|target)\b[`*\"]*\s*[:=]\s*[`*\"]*([^\n`\"]{1,300})", re.I)
_SOURCES = re.compile(r"^Sources: (.+)\.$", re.M)


# The goal


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A goal as questions and the form of the answer."""

    text: str
    question: str
    form: str = "findings"
    writes: bool = False
    """True if it begins with what to write."""


def goal_from(text: str) -> Goal:
    """Return a goal taken apart. Its question is empty if it names a form only."""
    line = _QUOTE.sub("", " ".join(text.split()))
    before = _LEADING.match(line)
    rest = line[before.end() :] if before else line
    after = None if before else _TRAILING.search(f"{rest} ")
    if after:
        rest = rest[: after.start()] + ("?" if after[0].startswith("?") else "")
    form = "report" if before or after else "findings"
    return Goal(text=line, question=rest.strip(), form=form, writes=before is not None)


def title_from(text: str) -> str:
    """Return a text as a title: on one line, cut between words."""
    line = flat(text, 400).rstrip(" .?!")
    short = line[:TITLE_CHARS_MAX].rsplit(" ", 1)[0].rstrip(" ,;:")
    return line if len(line) <= TITLE_CHARS_MAX else f"{short} …"


# The plan


def plan(prompt: Prompt) -> dict[str, Any]:
    """Return the plan as JSON data. Errors: `OfflineCannot` if nothing is asked, or can be looked up."""
    goal, tools = goal_from(prompt.goal), prompt.tools
    if not (set(TABLE_TOOLS) <= set(tools) or set(TEXT_TOOLS) <= set(tools)):
        raise OfflineCannot(
            "the offline model can only look things up, and no tool is there to do so",
            expected=f"{' and '.join(TABLE_TOOLS)}, or {' and '.join(TEXT_TOOLS)}",
            got=", ".join(tools[:30]) or "no tools",
            hint="Give a workspace with `--workspace DIR`.",
        )
    clauses = clauses_of(goal.question)
    if not clauses:
        raise OfflineCannot(f"the goal asks nothing; try: {OVERVIEW}", got=goal.text[:200])
    texts = [one for one in _TEXT_PATH.findall(prompt.section("Workspace")) if one.lower().endswith(ENDINGS)]
    of_text = [one for one in clauses if is_about_text(one)]
    agents: dict[str, Sequence[str]] = {}
    tasks: list[dict[str, Any]] = []
    for slug, asked in (("figures", [one for one in clauses if one not in of_text]), ("passages", of_text)):
        if asked:
            lines = [f"{one[:1].upper()}{one[1:].rstrip('?.! ')}?" for one in asked]
            question = " ".join(lines) if of_text else goal.question
            agent = "reader" if slug == "passages" else "analyst"
            agents[agent] = TEXT_TOOLS if slug == "passages" else TABLE_TOOLS
            if any(map(is_overview, asked)):
                agents[agent] = (*TABLE_TOOLS, "list_dir")
            calls = 2 + 2 * len(asked) + (len(texts) if slug == "passages" else 0)
            how = (
                "Quotes the passages word for word."
                if slug == "passages"
                else "Gives the figures of the data."
            )
            tasks.append(_task(slug, question, agent, [f"Answers the question: {question}", how], calls + 2))
    agents["writer"] = (READER,)
    wanted, criterion = (
        f"Write a report that answers: {goal.question}",
        f"Answers the question: {goal.question}",
    )
    last = _task("report", wanted, "writer", [criterion], WRITING_ITERATIONS + len(tasks))
    last["depends_on"] = [one["slug"] for one in tasks]
    staff = [
        {
            "slug": one,
            "name": one.capitalize(),
            "role": _ROLES[one],
            "tools": [tool for tool in wants if tool in tools],
        }
        for one, wants in agents.items()
    ]
    return {"agents": staff, "tasks": [*tasks, last], "membranes": []}


def _task(slug: str, goal: str, agent: str, criteria: Sequence[str], iterations: int) -> dict[str, Any]:
    return {
        "slug": slug,
        "goal": goal,
        "success_criteria": "\n".join(f"- {one}" for one in (*criteria, "Names the sources.")),
        "agent": agent,
        "depends_on": [],
        "max_iterations": max(ITERATIONS, iterations),
    }


# A task


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """The state of a task: an answer, or texts to write from; else the next call or the reason."""

    goal: Goal
    parts: tuple[Part, ...] = ()
    inputs: tuple[Shown, ...] = ()
    next: Wanted | None = None
    failure: OfflineCannot | None = None


def _work(prompt: Prompt) -> _Work:
    goal, desk = goal_from(prompt.section("Task", "Goal")), prompt.desk()
    try:
        inputs = tuple(_inputs(prompt, desk))
        can_look = desk.has("query_sql") or desk.has("read_file")
        if inputs and (goal.writes or not can_look):
            return _Work(goal=goal, inputs=inputs)
        if not goal.question:
            raise OfflineCannot(f"the task asks nothing; try: {OVERVIEW}")
        parts = answers_to(goal.question, desk)
        if _SIDES.search(prompt.section("Policy")):
            parts += _second_look(parts, desk)
        return _Work(goal=goal, parts=tuple(parts))
    except Wanted as wanted:
        return _Work(goal=goal, next=wanted)
    except OfflineCannot as failure:
        return _Work(goal=goal, failure=failure)


def _second_look(parts: Sequence[Part], desk: Desk) -> list[Part]:
    """Return the columns that lack values, for tables from which figures were taken. Errors: `Wanted`."""
    if not any(part.queries for part in parts) or not desk.has("query_sql"):
        return []
    sources = {source for part in parts for source in part.sources}
    described = desk.ask("describe_tables")
    names = [str(one["name"]) for one in described["tables"] if one.get("source") in sources]
    found: list[Part] = []
    for name in names:
        statement = f"SELECT column_name, null_percentage FROM (SUMMARIZE {quoted(name)})"
        rows = [row for row in desk.ask("query_sql", sql=statement, max_rows=200).get("rows", []) if row[1]]
        said = (
            f"{listed([code(str(row[0])) for row in rows])} of {code(name)} have missing values."
            if rows
            else f"No column of {code(name)} has missing values."
        )
        found.append(Part(title=f"A second look at {name}", sentences=(said,), queries=(statement,)))
    return found


def _inputs(prompt: Prompt, desk: Desk) -> list[Shown]:
    """Return the texts of others, whole. Errors: `Wanted` to read on in one; `OfflineCannot`."""
    sizes = {match[1]: int(match[2]) for match in _SIZE.finditer(prompt.section("Inputs"))}
    found: list[Shown] = []
    for one in prompt.shown("Inputs"):
        text = one.text
        if len(text.encode("utf-8", "replace")) < sizes.get(one.source, 0) and desk.has(READER):
            text, offset = "", 0
            while offset is not None:
                page = desk.ask(READER, ref=one.source, offset=offset, limit=PAGE_CHARS)
                text += str(page.get("text", ""))
                following = page.get("next_offset")
                offset = following if isinstance(following, int) and following > offset else None
        if text.strip():
            found.append(Shown(source=one.source, text=text))
    return found


def decide(prompt: Prompt) -> dict[str, Any]:
    """Return the decision as JSON data; what cannot be done is said in its reason."""
    work = _work(prompt)
    written = sum(turn.is_written for turn in prompt.turns)
    if work.next is not None:
        tool = work.next.tool
        if tool in prompt.tools:
            why = _WHY.get(tool, "The figures that the question asks for are missing.")
            return _decision("use_tool", why, tool=tool, input=work.next.arguments)
        work = _Work(goal=work.goal, failure=OfflineCannot(f"{tool} is needed and cannot be used"))
    if work.failure is not None:
        said = f"This cannot be answered with what is there: {work.failure.message}"
        if written:
            return _end(prompt, said)
        return _decision("complete_task", said, target=f"data that answers: {title_from(work.goal.text)}")
    if written >= VERSIONS_MAX:
        return _end(prompt, "The output holds all that could be found out; nothing more can be added.")
    reason = "Everything that was asked for has been looked up, so the answer can be written."
    if work.inputs:
        reason = "What was found out is there, so what was asked for can be written from it."
    if written:
        reason = "The output was not enough, so it is written again, as fully as the data allows."
    form = work.goal.form.capitalize()
    return _decision(
        "create_artifact",
        reason,
        target=f"{form}: {title_from(work.goal.question or work.goal.text)}",
        artifact_type="markdown",
    )


def _end(prompt: Prompt, said: str) -> dict[str, Any]:
    """A thought and a claim in turn: two equal decisions would bring nothing new."""
    last = prompt.turns[-1].decision.get("action") if prompt.turns else ""
    return _decision("complete_task" if last == "analyze" else "analyze", said)


def _decision(action: str, reason: str, **fields: Any) -> dict[str, Any]:
    given = {"tool": None, "artifact_type": "none", "input": None, "target": None, **fields}
    return {"action": action, "reason": reason[:REASON_CHARS_MAX], **given}


# The artifact


def write(prompt: Prompt) -> str:
    """Return the content that is asked for. Errors: `OfflineCannot` if there is none, or it is too long."""
    work = _work(prompt)
    if work.failure is not None or not (work.parts or work.inputs):
        raise work.failure or OfflineCannot("nothing was found out yet that could be written")
    match = _TITLE.search(prompt.section("Target"))
    title = match[1].strip(" *`") if match else title_from(work.goal.question)
    limit, size = _limit(prompt), 0
    for rows in (*ROWS_SHOWN, 0):
        if work.inputs:
            text = _written(work, title, rows)
        else:
            text = document(
                work.parts,
                rows=rows,
                queries=rows >= ROWS_SHOWN[1],
                question=" ".join(work.goal.question.split()),
                title=title,
            )
        size = len(text.encode("utf-8", "replace"))
        if limit is None or size <= limit:
            return text
    raise OfflineCannot("the content does not fit", expected=f"at most {limit} bytes", got=size)


def _limit(prompt: Prompt) -> int | None:
    """Return how many bytes the content may have, also by what was refused as too large before."""
    said = [
        match for turn in prompt.turns if not turn.is_written and (match := _TOO_LARGE.search(turn.result))
    ]
    limits = [int(match[1].replace("_", "")) for match in said]
    tokens = prompt.request.params.get("max_output_tokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool):
        limits.append(tokens * BYTES_PER_TOKEN)
    return min(limits, default=None)


def _written(work: _Work, title: str, rows: int) -> str:
    """Return a report, put together from the texts of others word for word."""
    bodies, leads, sources = list[str](), list[str](), list[str]()
    for one in work.inputs:
        body, lead = _findings(one.text, rows)
        bodies.append(body)
        leads += lead
        match = _SOURCES.search(one.text)
        sources += re.findall(r"`([^`\n]{1,200})`", match[1]) if match else []
    question = " ".join(work.goal.question.split())
    lines = [f"# {escaped(title)}", "", *([f"Question: {question}", ""] if question else [])]
    lines += ["## In short", "", *(f"- {one}" for one in leads), "", *bodies]
    # Findings by their own name alone: the same goal gives the same report, whatever its mission is called.
    refs = listed([code(one.source.rpartition("/")[2]) for one in work.inputs])
    said = (
        f"Sources: {listed([code(one) for one in dict.fromkeys(sources)])}, as found in {refs}."
        if sources
        else f"Sources: {refs}."
    )
    return "\n".join([*lines, said, "", LABEL, ""])


def _findings(text: str, rows: int) -> tuple[str, list[str]]:
    """Return findings with their tables cut to so many rows, and the first sentences of each part."""
    kept: list[str] = []
    leads: list[str] = []
    fence, is_query, cells, begins = "", False, 0, False
    for line in text.splitlines():
        bare = line.strip()
        if fence:
            fence = "" if bare == fence else fence
        elif bare.startswith("```"):
            fence = bare[: len(bare) - len(bare.lstrip("`"))]
        elif bare.startswith("#"):
            is_query, begins = bare.endswith("How this was computed"), True
            if bare.startswith("# "):
                continue
        elif bare.startswith(("Question: ", "Sources: ")) or bare == LABEL:
            is_query = False
            continue
        if is_query:
            continue
        if not fence and bare.startswith("|"):
            cells += 1
            if not rows or cells > rows + 2:
                continue
        else:
            cells = 0
            if begins and bare and not bare.startswith(("#", "`", "-")):
                leads.append(bare)
                begins = False
        if kept and not bare and not kept[-1].strip():
            continue
        kept.append(line)
    return "\n".join(kept).strip("\n") + "\n", leads
