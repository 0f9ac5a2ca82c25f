"""A scripted model for the agents of a world: it answers each by its name, and keeps what it was shown."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from artelier.ports.model import ModelRequest
from artelier.testing import ScriptedModel

NOOP = {"action": "noop"}

Answer = str | Mapping[str, Any] | BaseException | Callable[[str], Any]


class Speaking:
    """Answers by agent: a list, of which the last is repeated, or one answer for all ticks.

    An answer is an action as an object, text as it is, an error, or a function of the prompt's text, whose
    result is an answer or an awaitable text.
    `moves` are the answers to the question where a workflow goes, likewise.
    """

    def __init__(self, acts: Mapping[str, Any] | None = None, moves: Mapping[str, Any] | None = None) -> None:
        self._scripts = {"act": dict(acts or {}), "move": dict(moves or {})}
        self._asked: dict[tuple[str, str], int] = {}
        self.prompts: list[tuple[str, str, str]] = []
        """`(agent, "act" or "move", text of all messages)`, in the order of the calls."""
        self.model = ScriptedModel(self._answer)

    def shown(self, agent: str, what: str = "act") -> list[str]:
        """The prompts of one agent, oldest first."""
        return [text for who, kind, text in self.prompts if (who, kind) == (agent, what)]

    def _answer(self, request: ModelRequest) -> Any:
        text = "\n\n".join(message.text for message in request.messages)
        agent, what = _asked_by(text)
        self.prompts.append((agent, what, text))
        script = self._scripts[what].get(agent, NOOP)
        if isinstance(script, list):
            n = self._asked.get((agent, what), 0)
            self._asked[agent, what] = n + 1
            script = script[min(n, len(script) - 1)]
        return _said(script, text)


def _asked_by(text: str) -> tuple[str, str]:
    moving = re.search(r"(?:next phase of|Where does) (\w+)", text)
    if moving:
        return moving[1], "move"
    acting = re.search(r"^You are (\w+)\.$", text, re.MULTILINE)
    return (acting[1] if acting else ""), "act"


def _said(script: Any, text: str) -> Any:
    if isinstance(script, BaseException):
        raise script
    if callable(script):
        return _said(script(text), text)
    if inspect.isawaitable(script):
        return script
    return script if isinstance(script, str) else json.dumps(script)
