"""One task with fifty tools, twice: all schemas in each request, and skills loaded when needed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelReply, ModelRequest, ToolCall, Usage
from artelier.agents import AutonomousAgent
from artelier.context import ContextBuilder
from artelier.ports.model import FREE, Price
from artelier.tools.skills.listing import worked_example
from artelier_lab.bench.context.requests import cached_cost, tokens_of
from artelier_lab.skills_fixture import fifty_tools

CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("jira_search_issues", {"jql": "project = SUP AND status = Open ORDER BY created"}),
    ("jira_search_issues", {"jql": "project = SUP AND status = Waiting ORDER BY created"}),
    ("jira_get_issue", {"issue_key": "SUP-17"}),
    ("jira_get_issue", {"issue_key": "SUP-23"}),
    ("jira_get_issue", {"issue_key": "SUP-31"}),
    ("slack_post_message", {"text": "SUP-17 and SUP-23 are fixed; SUP-31 waits for the customer."}),
    ("jira_get_issue", {"issue_key": "SUP-40"}),
    ("slack_post_message", {"text": "SUP-40 is new and has no owner yet."}),
)
"""A task of eight calls with three tools: find issues, read them, tell people."""


class TaskModel:
    """Makes the calls of a task one by one; with skills, each is loaded just before its first use."""

    price: Price | None = FREE

    def __init__(self, calls: Sequence[ToolCall]) -> None:
        self.requests: list[ModelRequest] = []
        self._calls = calls

    async def complete(self, request: ModelRequest, /) -> ModelReply:
        self.requests.append(request)
        usage = Usage(input_tokens=tokens_of(request), output_tokens=30)
        turn = len(self.requests)
        if turn > len(self._calls):
            return ModelReply(text="The task is done.", usage=usage)
        return ModelReply(tool_calls=(self._calls[turn - 1],), usage=usage)


def calls_of(*, progressive: bool) -> list[ToolCall]:
    """The calls of the task, as a model makes them."""
    names = {name for name, _ in CALLS}
    examples = {tool.name: worked_example(tool) for tool in fifty_tools() if tool.name in names}
    made: list[tuple[str, dict[str, Any]]] = []
    loaded: set[str] = set()
    for name, own in CALLS:
        arguments = {**(examples[name] or {}), **own}
        if not progressive:
            made.append((name, arguments))
            continue
        if name not in loaded:
            loaded.add(name)
            made.append(("load_skill", {"skill_name": name}))
        made.append(("use_skill", {"name": name, "arguments": arguments}))
    return [
        ToolCall(id=f"c{index}", name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(made)
    ]


def bench_progressive(folder: Path, *, progress: Callable[[str], None]) -> dict[str, float]:
    """Tokens of the first prompt and of the whole task, both ways."""
    progress("context: fifty tools, natively and as skills")
    native = asyncio.run(requests_of(folder / "native.db", progressive=False))
    skills = asyncio.run(requests_of(folder / "skills.db", progressive=True))
    task = sum(map(tokens_of, native)), sum(map(tokens_of, skills))
    return {
        "skills_first_prompt_saving": 1 - tokens_of(skills[0]) / tokens_of(native[0]),
        "skills_first_prompt_tokens": float(tokens_of(skills[0])),
        "native_first_prompt_tokens": float(tokens_of(native[0])),
        "skills_task_saving": 1 - task[1] / task[0],
        "skills_task_tokens": float(task[1]),
        "native_task_tokens": float(task[0]),
        "skills_task_saving_cached": 1 - cached_cost(skills) / cached_cost(native),
        "skills_task_requests": float(len(skills)),
        "native_task_requests": float(len(native)),
    }


async def requests_of(path: Path, *, progressive: bool) -> list[ModelRequest]:
    """The requests of the whole task, every call of which succeeded."""
    model = TaskModel(calls_of(progressive=progressive))
    builder = ContextBuilder(identity="You keep a team informed.", progressive_skills=progressive)
    with Kernel.open(path, models={"bench": model}, tools=fifty_tools()) as kernel:
        agent = AutonomousAgent(kernel=kernel, context_builder=builder)
        result = await agent.run(
            run_id="task", model="bench", prompt="Tell #support what became of their open issues."
        )
        assert result.status == "completed", (result.status, result.reason)
        statuses = {step["status"] for step in await kernel.for_tenant().steps("task")}
        assert statuses == {"completed"}, statuses
    return model.requests
