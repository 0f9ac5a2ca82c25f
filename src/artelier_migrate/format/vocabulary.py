"""Words of the old format that are others now: names of variables, and of actions and their fields."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import NamedTuple

VARIABLES: Mapping[str, str] = {
    "_current_state": "current_state",
    "state": "current_state",
    "credits": "balance",
    "scrip": "balance",
    "memories": "recent_memories",
    "relevant_memories": "recent_memories",
    "rag_memories": "recent_memories",
    "last_result": "last_action_result",
    "consecutive_failures": "failure_count",
    "current_tick": "tick",
}
"""Old names of what is built in now."""

ACTIONS: Mapping[str, str] = {
    "read_artifact": "read",
    "write_artifact": "write",
    "edit_artifact": "edit",
    "delete_artifact": "delete",
    "invoke_artifact": "invoke",
    "transfer_scrip": "transfer",
    "send_message": "message",
}
"""Old names of actions."""

GONE = (
    "query_kernel",
    "configure_context",
    "modify_system_prompt",
    "update_metadata",
    "submit_to_mint",
    "submit_to_task",
    "mint",
)
"""Actions that have no equal here. `mint` counts only where it is named as an action."""

_FIELDS: Mapping[str, str] = {
    "action_type": "action",
    "artifact_type": "kind",
    "old_string": "old",
    "new_string": "new",
    "recipient_id": "to",
}
"""Old names of fields of actions, as they stand in JSON."""

_ACTION = re.compile(rf"(?<![A-Za-z0-9_.-])(?:{'|'.join(ACTIONS)})(?![A-Za-z0-9_-])")
_FIELD = re.compile(rf"(?<=[\"'])(?:{'|'.join(_FIELDS)})(?=[\"']\s*:)")
_READ = re.compile(r"""(["']action["']\s*:\s*["']read["']\s*,\s*["'])artifact_id(?=["']\s*:)""")
_GONE = re.compile(rf"(?<![A-Za-z0-9_.-])(?:{'|'.join(GONE[:-1])})(?![A-Za-z0-9_-])")
_MINT = re.compile(r"""["']action(?:_type)?["']\s*:\s*["'](mint)["']""")


class Translated(NamedTuple):
    """A text in today's words."""

    text: str
    renamed: tuple[str, ...]
    """Old names of the actions that were translated."""
    gone: tuple[str, ...]
    """Actions that it names and that are not there any more."""


def translate(text: str) -> Translated:
    """Return a prompt with today's names of actions, in prose and in JSON, and those that have none."""
    renamed = tuple(dict.fromkeys(_ACTION.findall(text)))
    gone = tuple(dict.fromkeys((*_GONE.findall(text), *_MINT.findall(text))))
    text = _ACTION.sub(lambda match: ACTIONS[match[0]], text)
    text = _FIELD.sub(lambda match: _FIELDS[match[0]], text)
    return Translated(_READ.sub(r"\1ref", text), renamed, gone)


class Rename(ast.NodeTransformer):
    """Puts today's names of variables and actions into an expression or code that does not assign them."""

    def __init__(self, kept: frozenset[str] = frozenset()) -> None:
        """`kept`: names that the code assigns itself."""
        self._kept = kept

    def visit_Name(self, node: ast.Name) -> ast.Name:
        if not isinstance(node.ctx, ast.Load) or node.id in self._kept:
            return node
        return ast.Name(VARIABLES.get(node.id, node.id), node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and node.value in ACTIONS:
            return ast.Constant(ACTIONS[node.value])
        return node
