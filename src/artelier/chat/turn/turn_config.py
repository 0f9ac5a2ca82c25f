"""The job of one turn of a chat: stored with the run, so that any process can continue it."""

from __future__ import annotations

from typing import Any

import msgspec

from artelier.errors import CorruptStore

LOOP = "chat"
"""How runs name the loop that drives them."""


def chat_of(run_id: str) -> str:
    """The chat of which a run is a turn, by the run's name; a fork's name is that of its origin and more."""
    return run_id.rpartition("/")[0]


CARD_RULES = 1
"""Of turns that are asked for now."""

HISTORY_MAX = 200
"""Messages that a prompt shows at most, if its budget allows."""


class TurnJob(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn: where it stands in the chat, what was said, with which profile and model."""

    chat: str
    branch: str
    node: int = 0
    """The node that the new variant hangs on; 0 at the beginning. Of `continue`, the node extended."""
    trigger: str = "generate"
    """`generate`, `regenerate` or `continue`."""
    text: str = ""
    """The person's words; of `continue`, none."""
    reworded: bool = False
    """True if `text` is for this variant alone: the turn was said in other words."""
    card_rules: int = 0
    """How the texts of a card are read: 1 with macros, `{{original}}` and notes at a depth; 0, of turns that
    older versions asked for, with names alone."""
    profile: str = ""
    """`id@version`; empty for a plain main call."""
    profile_id: str = ""
    session_id: str = ""
    model: str
    params: dict[str, Any] = {}
    """`max_output_tokens`, `temperature`, ..."""
    deadline_ms: int = 0
    """Of the whole run, from its start; 0 for none."""
    history_max: int = HISTORY_MAX
    principal: str = ""
    """In whose name artifacts are read."""

    @property
    def scope(self) -> str:
        """The scope that owns the artifacts; empty for a plain main call."""
        return f"{self.profile_id}/{self.session_id}" if self.profile_id else ""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started` and `turn.asked`."""
        return msgspec.to_builtins(self)

    @classmethod
    def from_stored(cls, settings: object) -> TurnJob:
        """The job of a recorded run. Errors: `CorruptStore` if the settings are not one's."""
        try:
            return msgspec.convert(settings, cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the settings of a turn cannot be read: {error}") from None
