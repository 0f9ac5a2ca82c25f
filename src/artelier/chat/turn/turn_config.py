"""The job of one turn of a chat: stored with the run, so that any process can continue it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from artelier.log import StoredRecord

LOOP = "chat"
"""How runs name the loop that drives them."""


def chat_of(run_id: str) -> str:
    """The chat of which a run is a turn, by the run's name; a fork's name is that of its origin and more."""
    return run_id.rpartition("/")[0]


GROUP_RULES = 2
ORIGINAL_RULES = 3
SYSTEM_RULES = 4
CARD_RULES = SYSTEM_RULES
"""Of turns that are asked for now."""

HISTORY_MAX = 200
"""Messages that a prompt shows at most, if its budget allows."""


IMPERSONATE = "impersonate"
"""The trigger of a draft of the person's words, which is no turn."""


class SpeakerRule(StrEnum):
    """The rule by which the next speaker of a group is chosen. A speaker that is named comes first always."""

    LIST = "list"
    """In the order of the members, after who spoke last."""
    MENTION = "mention"
    """Who is named first in what was said; else as `list`."""
    TALKATIVENESS = "talkativeness"
    """Who is named; else drawn, by how talkative each is, from those who did not speak last."""
    MODEL = "model"
    """The model of the chat chooses, in a call of its own; if it names nobody, as `list`."""


class TurnJob(StoredRecord, frozen=True, kw_only=True, omit_defaults=True):
    """One turn: where it stands in the chat, what was said, with which profile and model."""

    MEANING = "settings of a turn"

    chat: str
    branch: str
    node: int = 0
    """The node that the new variant hangs on; 0 at the beginning. Of `continue`, the node extended."""
    trigger: str = "generate"
    """`generate`, `regenerate` or `continue`."""
    text: str = ""
    """The person's words; of `continue`, none."""
    attachments: tuple[dict[str, Any], ...] = ()
    """Pieces of the person's message that show an image, a sound or a PDF."""
    reworded: bool = False
    """True if `text` is for this variant alone: the turn was said in other words."""
    card_rules: int = 0
    """How the texts of a card are read: 1 with macros, `{{original}}` and notes at a depth, 2 with the macros
    of groups too, 3 with the chat's note as `{{original}}` after the conversation; 0, of turns that older
    versions asked for, with names alone."""
    profile: str = ""
    """`id@version`; empty for a plain main call."""
    profile_id: str = ""
    session_id: str = ""
    model: str
    fallbacks: tuple[str, ...] = ()
    """Models that are asked for the reply in turn when `model` fails."""
    params: dict[str, Any] = {}
    """`max_output_tokens`, `temperature`, ..."""
    deadline_ms: int = 0
    """Of the whole run, from its start; 0 for none."""
    history_max: int = HISTORY_MAX
    principal: str = ""
    """In whose name artifacts are read."""
    speaker: str = ""
    """Which member of a group writes the reply; empty in a chat without one."""
    picks_speaker: bool = False
    """True if a model chooses who that is; `speaker` is for when it names nobody."""

    @property
    def models(self) -> tuple[str, ...]:
        """Models that are asked for the reply, in turn."""
        return (self.model, *self.fallbacks)

    @property
    def keeps_unchanged(self) -> bool:
        """Return True if an artifact that gets the value it has keeps its version; older turns made one."""
        return self.card_rules >= GROUP_RULES

    @property
    def has_words(self) -> bool:
        """Return True if the person says something in this turn."""
        return self.trigger != "continue" and bool(self.text)

    @property
    def scope(self) -> str:
        """The scope that owns the artifacts; empty for a plain main call."""
        return f"{self.profile_id}/{self.session_id}" if self.profile_id else ""

    def settings(self) -> dict[str, Any]:
        """JSON data for `run.started` and `turn.asked`."""
        return self.to_stored()


class FailedTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The reason for which a turn ended without success, as the result of its run has it."""

    failed_type: str
    """Where it failed: `before_barrier`, `main_llm` or `after_main_llm`."""
    operation: str = ""
    """Id of the operation that failed; empty for none."""
    code: str
    message: str


class TurnEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a turn's run, as it is stored."""

    text: str
    turn: int
    failed: FailedTurn | None
    finish_reason: str
    """Of the main call; empty for none."""
    operations: dict[str, dict[str, str]]
    """Status of each operation, by hook."""
    is_cut: bool
    """True if the reply ended at its limit of tokens."""
