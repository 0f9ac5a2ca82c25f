"""Tasks and missions on the offline model, with real workspace tools and the real judging by rule.

What the task loop does with a decision is done here without a database, so that many goals can be tried; the
shape of the prompts is that of the loop's own templates. Real runs are in `test_missions_runs.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from artelier.kernel.prompt.delimiters import fenced
from artelier.missions.definition import Decision, Plan, Verdict, slug_of
from artelier.missions.prompt import prompt_sections
from artelier.missions.shipped_texts import template
from artelier.missions.task import actions as task_actions
from artelier.missions.verdict.evidence_check import void_of
from artelier.missions.verdict.output_lint import Grounds, Judged, faults_of
from artelier.models.offline import OfflineModel
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, ToolCall
from tests.models.offline.driving import Workspace

Shown = tuple[str, str]
"""The ref of an artifact and its text."""


def reply_to(
    messages: Sequence[ChatMessage], schema: dict[str, Any] | None = None, tokens: int = 1_024
) -> ModelReply:
    request = ModelRequest(
        model="offline", messages=tuple(messages), output_schema=schema, params={"max_output_tokens": tokens}
    )
    model = OfflineModel()
    reply = asyncio.run(model.complete(request))
    assert asyncio.run(model.complete(request)).canonical() == reply.canonical()
    return reply


@dataclass
class Done:
    """How a task ended."""

    passed: bool
    decisions: list[Decision]
    outputs: list[Shown]
    said: str = ""
    """What the last result told."""

    @property
    def actions(self) -> list[str]:
        return [one.tool or one.action for one in self.decisions]

    @property
    def text(self) -> str:
        return self.outputs[-1][1] if self.outputs else ""


@dataclass
class Office:
    """One workspace and the policy of its agents."""

    workspace: Workspace
    policy: str = ""
    plan: Plan | None = None
    results: dict[str, Done] = field(default_factory=dict)

    def task(
        self,
        goal: str,
        criteria: str = "",
        *,
        tools: Sequence[str] = ("describe_tables", "query_sql", "list_dir", "read_file"),
        inputs: Sequence[Shown] = (),
        iterations: int = 5,
        notes: Sequence[str] = (),
    ) -> Done:
        """One task to its end."""
        criteria = criteria or f"- Answers the question: {goal}\n- Names the sources."
        work = _Work(self, goal, criteria, tools=tools, inputs=inputs, most=iterations)
        work.conversation += [
            ChatMessage(role="user", content=f"{template('note-1')}\n\n{note}") for note in notes
        ]
        return work.done()

    def mission(self, goal: str) -> dict[str, Done]:
        """The tasks of a plan in order; the later ones read what they depend on."""
        tools = "\n".join(
            f"- {name}: {tool.schema.description}" for name, tool in self.workspace._tools.items()
        )
        listed = self.call("list_dir", {"path": ".", "recursive": True})
        files = "\n".join(
            f"- {one['path']} ({one['size_bytes']} bytes)"
            for one in listed["entries"]
            if one["type"] == "file"
        )
        asked = f"## Goal\n\n{goal}\n\n## Workspace\n\n{files}\n\n## Tools\n\n{tools}\n\n## Limits\n\nFew."
        reply = reply_to(
            [ChatMessage(role="system", content=template("plan-1")), ChatMessage(role="user", content=asked)],
            Plan.model_json_schema(),
        )
        self.plan = Plan.model_validate(json.loads(reply.text))
        tools_of = {agent.slug: agent.tools for agent in self.plan.agents}
        self.results = {}
        for one in self.plan.tasks:
            before = [shown for name in one.depends_on for shown in self.results[name].outputs]
            done = self.task(
                one.goal,
                one.success_criteria,
                tools=tools_of[one.agent],
                inputs=before,
                iterations=one.max_iterations,
            )
            self.results[one.slug] = done
            if not done.passed:
                break
        return self.results

    def call(self, tool: str, arguments: dict[str, Any]) -> Any:
        return asyncio.run(self.workspace._call(ToolCall(id="c", name=tool, arguments=arguments)))


class _Work:
    def __init__(
        self,
        office: Office,
        goal: str,
        criteria: str,
        *,
        tools: Sequence[str],
        inputs: Sequence[Shown],
        most: int,
    ) -> None:
        self.office, self.goal, self.criteria, self.most = office, goal, criteria, most
        self.tools = {name: office.workspace._tools[name].schema for name in tools}
        self.inputs = list(inputs)
        self.conversation: list[ChatMessage] = []
        self.outputs: dict[str, tuple[int, str, str]] = {}
        self.shown: list[str] = [text for _, text in inputs]

    def done(self) -> Done:
        decisions: list[Decision] = []
        said: list[str] = []
        for number in range(1, self.most + 1):
            reply = self._asked("decision-1", number, schema=Decision.model_json_schema())
            decision = Decision.model_validate(json.loads(reply.text), strict=True)
            decisions.append(decision)
            if task_actions.lacks(decision, self.outputs):
                break  # the task is blocked
            said, passed = self._acted(decision, number)
            if passed:
                return Done(passed=True, decisions=decisions, outputs=self._refs())
            self.conversation += [
                ChatMessage(role="assistant", content=reply.text),
                ChatMessage(role="user", content=prompt_sections.result(number, *said)),
            ]
        return Done(passed=False, decisions=decisions, outputs=self._refs(), said="\n".join(said))

    def _acted(self, decision: Decision, number: int) -> tuple[list[str], bool]:
        if decision.action == "analyze":
            return [template("analyzed-1")], False
        if decision.action == "use_tool":
            assert decision.tool in self.tools, "a tool that is not listed is never chosen"
            value = json.dumps(self.office.call(decision.tool, decision.input or {}))
            self.shown.append(value)
            return [template("tool-said-1"), fenced(value, source=decision.tool)], False
        said = [template("claimed-1")]
        if decision.action == "create_artifact":
            target = f"## Target\n\ntitle: {decision.target}\ntype: {decision.artifact_type}"
            text = self._asked("content-1", number, extra=target).text
            slug = slug_of(decision.target or "")
            version = self.outputs.get(slug, (0,))[0] + 1
            self.outputs[slug] = (version, text, decision.artifact_type)
            said = [f"{template('written-1')} m/{slug}@{version}"]
        verdict, passed = self._judged()
        return [*said, template("failed-evaluation-1"), verdict], passed

    def _judged(self) -> tuple[str, bool]:
        judged = [
            Judged(ref=f"m/{slug}@{version}", media=media, text=text)
            for slug, (version, text, media) in self.outputs.items()
        ]
        grounds = Grounds(asked=[self.goal, self.criteria], shown=self.shown)
        if faults := faults_of(judged, grounds):
            return repr(faults), False
        verdict = judgement(self.criteria, [(one.ref, one.text) for one in judged])
        void = void_of(verdict, self.criteria, judged)
        assert not void, "the offline model quotes what stands there"
        return repr(verdict), all(one.met for one in verdict.criteria)

    def _refs(self) -> list[Shown]:
        return [(f"m/{slug}@{one[0]}", one[1]) for slug, one in self.outputs.items()]

    def _asked(
        self, contract: str, number: int, *, schema: dict[str, Any] | None = None, extra: str = ""
    ) -> ModelReply:
        parts = [
            template(contract),
            "## Agent\n\nAda\n\nYou look things up.",
            f"## Task\n\n{self.goal}",
            f"## Success criteria\n\n{self.criteria}",
        ]
        parts += [f"## Policy\n\n{self.office.policy}"] if self.office.policy else []
        if self.inputs:
            told = [
                f"{ref} (report, Findings, by m/analyst, {len(text.encode())} bytes)\n\n"
                f"{fenced(text, source=ref)}"
                for ref, text in self.inputs
            ]
            parts.append("\n\n".join(["## Inputs", *told]))
        parts.append(f"## Artifacts\n\n{template('no-artifacts-1')}")
        if schema is not None:
            listed = [
                f"### {name}\n\n{tool.description}\n\n{json.dumps(tool.parameters)}"
                for name, tool in self.tools.items()
            ]
            parts.append("\n\n".join(["## Tools", *(listed or [template("no-tools-1")])]))
        now = f"## Now\n\nIteration {number} of {self.most}"
        return reply_to(
            [
                ChatMessage(role="system", content="\n\n".join([*parts, extra]).strip()),
                *self.conversation,
                ChatMessage(role="user", content=now),
            ],
            schema,
        )


def judgement(criteria: str, outputs: Sequence[Shown]) -> Verdict:
    """What the offline model says of outputs."""
    told = "\n\n".join(fenced(text, source=ref) for ref, text in outputs)
    reply = reply_to(
        [
            ChatMessage(role="system", content=template("evaluation-1")),
            ChatMessage(role="user", content=f"## Success criteria\n\n{criteria}"),
            ChatMessage(role="user", content=f"## Outputs\n\n{told}"),
        ],
        Verdict.model_json_schema(),
        4_000,
    )
    return Verdict.model_validate(json.loads(reply.text), strict=True)
