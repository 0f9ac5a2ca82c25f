"""A competent model by script: it looks things up with the shipped tools, and writes from what they said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from artelier import ModelRequest
from artelier.testing import ScriptedModel

Results = list[Any]
"""What the tools have said so far, in order."""
Call = tuple[str, dict[str, Any] | Callable[[Results], dict[str, Any]]]

_DATA = re.compile(r'<data source="(?P<source>[^"]*)"[^>]*>\n(?P<text>.*?)\n</data>', re.S)


def sql(statement: str) -> Call:
    return ("query_sql", {"sql": statement})


def read(path: str) -> Call:
    return ("read_file", {"path": path})


def find(query: str, **more: Any) -> Call:
    return ("search_text", {"query": query, "max_hits": 500, **more})


class Analyst:
    """Plays planner, analyst and evaluator of a mission with one task."""

    def __init__(self, question: str, calls: Sequence[Call], compose: Callable[[Results], str]) -> None:
        self._question = question
        self._calls = [("describe_tables", {}), *calls]  # as anybody would begin
        self._compose = compose
        self.model = ScriptedModel(self._answer)

    def _answer(self, request: ModelRequest) -> Any:
        title = str((request.output_schema or {}).get("title", "content"))
        if title == "Plan":
            return self._plan()
        if title == "Verdict":
            return self._judge(request)
        results = _results(request)
        if title == "content":
            return self._compose(results[1:])
        if len(results) == len(self._calls):
            return _decide("create_artifact", artifact_type="markdown", target="Answer")
        tool, given = self._calls[len(results)]
        return _decide("use_tool", tool=tool, input=given(results[1:]) if callable(given) else given)

    def _plan(self) -> dict[str, Any]:
        tools = ["query_sql", "describe_tables", "read_file", "search_text", "list_dir", "calculator"]
        return {
            "agents": [{"slug": "analyst", "name": "Analyst", "tools": tools}],
            "tasks": [
                {
                    "slug": "answer",
                    "goal": self._question,
                    "success_criteria": "It answers the question.",
                    "agent": "analyst",
                    "max_iterations": 8,
                }
            ],
        }

    def _judge(self, request: ModelRequest) -> dict[str, Any]:
        (output,) = _DATA.finditer(request.messages[-1].text)
        line = max(output["text"].splitlines(), key=len)
        evidence = [{"ref": output["source"], "quote": line}]
        met = {"criterion": "It answers the question.", "met": True, "evidence": evidence, "missing": ""}
        return {"criteria": [met], "summary": "It does."}


def _decide(action: str, **more: Any) -> dict[str, Any]:
    return {"action": action, "reason": "It is next.", **more}


def _results(request: ModelRequest) -> Results:
    """Return the answers of tools, none of which may have failed."""
    found: Results = []
    for message in request.messages:
        if message.role == "user" and message.text.startswith("## Result of iteration"):
            for data in _DATA.finditer(message.text):
                value = json.loads(data["text"])
                assert "error" not in value, value
                found.append(value)
    return found
