"""Wire models of chats: profiles, sessions and turns."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from artelier.chat.chat_file import ChatFileContents
from artelier.chat.queries.chats import BranchReport, SessionReport
from artelier.chat.session.chat_reader import TurnMedium
from artelier.chat.session.edits import Deleted, MessageHit
from artelier.chat.session.operation_trial import OperationTrial
from artelier.chat.session.settings import QuickReply, StoredChatSettings
from artelier.chat.session.turns import DraftedWords
from artelier.operations.graph.scope import Version
from artelier.operations.kinds.contract import Problem
from artelier.operations.lore.prompt_places import PlacedPrompt
from artelier.operations.profile.operation_profile import ListedProfile
from artelier.server.wire.base import (
    ID_CHARS_MAX,
    Attachments,
    Id,
    ParamsIn,
    RequestBody,
    ResponseModel,
    describe_record,
)


@describe_record(ListedProfile)
class ProfileLine(ResponseModel):
    """A profile of a list."""


class ProfilesPage(ResponseModel):
    """Shipped profiles first, then those that are stored."""

    items: list[ProfileLine]
    next: str | None = None
    """Give it as `after` for the next page; null at the end."""
    invalid: list[str] = []
    """Refs of stored ones that today's rules do not let through."""


class ProfileShown(ResponseModel):
    """A profile as it is written."""

    profile_id: str
    source: str
    profile: dict[str, Any]


@describe_record(Problem)
class Mistake(ResponseModel):
    """Something wrong with a profile."""

    path: str
    """Such as `operations[3].params.effects[0].tag`; empty for the whole."""


class Validated(ResponseModel):
    """All that is wrong with a profile."""

    valid: bool
    errors: list[Mistake]


class ProfileBody(RequestBody):
    """A profile to look at, or to store."""

    profile: Any
    """An object, or its JSON text."""


class ProfileSaved(ResponseModel):
    """The place where a profile is stored."""

    ref: str
    profile_id: str


TEXT_CHARS_MAX = 1_000_000


Speaks = Literal["list", "mention", "talkativeness", "model"]


class QuickReplyWish(RequestBody):
    """Words that a person says at one press."""

    label: str = Field(min_length=1, max_length=60)
    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)


class ChatWish(RequestBody):
    """Settings of a chat; what is not given stays as it is."""

    model: str | None = Field(default=None, min_length=1, max_length=200)
    fallbacks: list[str] | None = Field(default=None, max_length=7)
    """Models that are asked for a reply in turn when `model` fails."""
    profile: str | None = Field(default=None, max_length=200)
    """Id or ref of a stored profile, or the name of a shipped one; null for plain main calls."""
    user: str | dict[str, Any] | None = None
    """A name, or JSON with a name."""
    char: str | dict[str, Any] | None = None
    group: list[str | dict[str, Any]] | None = Field(default=None, max_length=32)
    """Several characters, each as `char`; null for one alone."""
    speaks: Speaks | None = None
    """How the next speaker of a group is chosen."""
    system: str | None = Field(default=None, max_length=TEXT_CHARS_MAX)
    scenario: str | None = Field(default=None, max_length=TEXT_CHARS_MAX)
    """Of this chat, in place of its characters'."""
    variables: dict[str, str] | None = Field(default=None, max_length=1_000)
    """The values of `{{getvar}}` at the beginning of each turn."""
    prompts: list[dict[str, Any]] | None = Field(default=None, max_length=20_000)
    """The parts of a prompt in their order, as settings show them; null for the usual order."""
    note: str | dict[str, Any] | None = None
    """The author's note: a text, or `{prompt, depth, role}`."""
    quick_replies: list[QuickReplyWish] | None = Field(default=None, max_length=50)
    """Words that are said at one press."""
    lorebooks: list[Id] | None = Field(default=None, max_length=16)
    history_max: int | None = Field(default=None, ge=1, le=10_000)
    """Messages that a prompt shows at most."""
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    """Of each run."""
    params: ParamsIn = ParamsIn()

    def settings(self) -> dict[str, Any]:
        """Return what was given, as `Session.open` and `Session.change` take it."""
        given = {**self.given_fields("params", "id", "greetings", "subject"), **self.params.given_fields()}
        if given.get("model", "") is None:
            del given["model"]
        return given


class ChatNew(ChatWish):
    """A new chat."""

    id: str | None = Field(default=None, max_length=120)
    """By default a free one."""
    greetings: list[str] | None = Field(default=None, max_length=200)
    """With which the character may begin; the first is shown."""
    subject: str = Field(default="", max_length=200)
    """Whom it is about: all that it stores is erased with that."""


class ChatLine(ResponseModel):
    """A chat of a list."""

    id: str
    branches: int
    runs: int
    opened_us: int
    changed_us: int
    """When somebody last said something, or changed the settings."""
    title: str = ""
    """Empty for none."""
    archived: bool = False


@describe_record(QuickReply)
class QuickReplyShown(ResponseModel):
    """Words that a person says at one press."""


@describe_record(PlacedPrompt)
class PlacedPromptShown(ResponseModel):
    """One part of a prompt: what the chat has for a place, or a text of its own."""


@describe_record(StoredChatSettings, without=("principal",))
class ChatSettings(ResponseModel):
    """The settings of a chat."""

    fallbacks: list[str] = []
    """Models that are asked for a reply in turn when `model` fails."""
    group: list[dict[str, Any]] = []
    """The characters of a chat with several; empty for one alone."""
    speaks: Speaks = "list"
    """How the next speaker of a group is chosen."""
    note: dict[str, Any] = {}
    """The author's note `{prompt, depth, role}`; empty for none."""
    quick_replies: list[QuickReplyShown] = []
    """Words that are said at one press."""


@describe_record(BranchReport)
class Branch(ResponseModel):
    """A branch of a chat."""


class TextPart(ResponseModel):
    """A part of a reply."""

    channel: str
    """`text`, `reasoning`, `tool` or `state`."""
    text: str
    operation: str
    """Which operation wrote it; empty for the model."""


class VariantOut(ResponseModel):
    """One reply of a turn."""

    number: int
    """From 1."""
    text: str
    parts: list[TextPart]
    status: str
    """`done`, `failed`, `aborted` or `running`."""
    finish_reason: str
    run_id: str
    """Empty for a greeting or an imported reply."""
    at_us: int
    is_hidden: bool = False
    """Whether later prompts leave it out."""
    speaker: str = ""
    """What the one was called who said it; empty if that is not recorded."""
    tokens: int = 0
    """Estimate of its text."""


@describe_record(TurnMedium)
class MediumOut(ResponseModel):
    """An image, a sound, a PDF or a text that was shown with the words of a turn."""


class TurnOut(ResponseModel):
    """A turn as one branch shows it."""

    number: int
    """From 1; 0 for a greeting."""
    user: str
    """The person's words as the selected variant has them."""
    said: str
    """The words as they were said."""
    selected: int
    """Number of the selected variant; 0 if there is no reply."""
    variants: list[VariantOut]
    at_us: int
    is_hidden: bool = False
    """Whether later prompts leave the person's words out."""
    persona: str = ""
    """What the person was called; empty if that is not recorded."""
    user_tokens: int = 0
    """Estimate of the person's words."""
    media: list[MediumOut] = Field(default=[], validation_alias="attached")
    """In the order of their positions."""


class Panel(ResponseModel):
    """The latest value of an artifact of the session that people may see."""

    tag: str
    value: Any
    version: int
    usage: Literal["ui_only", "prompt+ui"]
    semantics: str
    is_feed: bool
    operation: str
    """Which operation wrote it."""
    run_id: str
    at_us: int


@describe_record(Version)
class FeedEntry(ResponseModel):
    """An earlier value; of a feed one of its entries."""


class Feed(ResponseModel):
    """The timeline of an artifact that is appended to, newest first."""

    tag: str
    entries: list[FeedEntry]


@describe_record(SessionReport)
class ProfileSessionOut(ResponseModel):
    """A session of the chat's profile: artifacts of its own."""


class ChatShown(ResponseModel):
    """A chat as one of its branches shows it."""

    id: str
    branch: str
    settings: ChatSettings
    branches: list[Branch]
    turns: list[TurnOut]
    """A page of the newest, oldest first."""
    before: int | None
    """Give it as `before` for the turns before these; null if these are the first."""
    panels: list[Panel]
    feeds: list[Feed]
    sessions: list[ProfileSessionOut]


class TurnAsk(RequestBody):
    """Something said."""

    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)
    attachments: Attachments
    """The model is shown them with the words."""
    branch: str = Field(default="main", max_length=64)
    speaker: str = Field(default="", max_length=200)
    """Which character of a group replies; by default the chat's rule chooses."""
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    params: ParamsIn = ParamsIn()
    """For this one main call."""


class TurnAgain(RequestBody):
    """Another reply, or more of one."""

    branch: str = Field(default="main", max_length=64)
    speaker: str = Field(default="", max_length=200)
    """Which character of a group replies; by default whoever did."""
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    params: ParamsIn = ParamsIn()


class OnBranch(RequestBody):
    """The branch of a chat that a request is about."""

    branch: str = Field(default="main", max_length=64)


class Stopping(OnBranch):
    """The end of a reply that is being written."""

    note: str = Field(default="", max_length=1_000)


class Selecting(OnBranch):
    """Another variant of a turn."""

    turn: int = Field(ge=0, le=2**53)
    variant: int = Field(ge=1, le=2**53)


class Branching(OnBranch):
    """A new branch that begins after a turn of `branch`."""

    name: str | None = Field(default=None, max_length=64)
    """By default a free one."""
    at_turn: int | None = Field(default=None, ge=0, le=2**53)
    """The newest unless given; 0 is before the first."""
    at_run: str | None = Field(default=None, max_length=ID_CHARS_MAX)
    """After the reply of this run of the chat instead, also where no branch shows it."""


class Rewinding(OnBranch):
    """Going on from an earlier turn."""

    turn: int = Field(ge=0, le=2**53)


class Editing(OnBranch):
    """Other words for a turn: they are said on a new branch, and nothing is lost."""

    turn: int = Field(ge=1, le=2**53)
    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)
    name: str | None = Field(default=None, max_length=64)
    """Of the new branch."""


Role = Literal["user", "assistant"]


class Revising(OnBranch):
    """Other words for a message; the turns after it stay."""

    turn: int | None = Field(default=None, ge=0, le=2**53)
    """By default the newest."""
    role: Role = "assistant"
    text: str = Field(min_length=1, max_length=TEXT_CHARS_MAX)


class Hiding(OnBranch):
    """Messages that later prompts leave out, or show again."""

    turn: int | None = Field(default=None, ge=0, le=2**53)
    role: Role | None = None
    """By default both."""
    hidden: bool = True


class DeletingTurn(OnBranch):
    """A turn, or one reply of it, to delete."""

    turn: int | None = Field(default=None, ge=0, le=2**53)
    variant: int | None = Field(default=None, ge=1, le=2**53)
    """One reply alone; by default the whole turn."""


class DeletingBranch(RequestBody):
    """A branch to delete."""

    branch: str = Field(max_length=64)


class Labeling(RequestBody):
    """A title for a chat, and whether it is archived; what is not given stays."""

    title: str | None = Field(default=None, max_length=200)
    archived: bool | None = None


class Rerunning(TurnAgain):
    """A turn to run again, as a new variant with its own state."""

    turn: int = Field(ge=1, le=2**53)
    text: str = Field(default="", max_length=TEXT_CHARS_MAX)
    """Other words of the person, for this variant alone."""


class Impersonating(OnBranch):
    """A wish for a draft of the person's next message."""

    params: ParamsIn = ParamsIn()


@describe_record(DraftedWords)
class DraftShown(ResponseModel):
    """A proposal of what the person could say; nobody has said it."""


class OperationAgain(RequestBody):
    """One operation of a turn, to run again over what it saw."""

    run_id: str = Field(max_length=512)
    """Of the turn."""
    operation_id: str = Field(max_length=200)
    hook: Literal["", "before_main_llm", "after_main_llm"] = ""
    """Needed for one that stands at both."""
    current: bool = False
    """As the profile has it now, not as the turn had it."""


@describe_record(OperationTrial)
class OperationTrialShown(ResponseModel):
    """The outcome of an operation that was run again."""


@describe_record(Deleted)
class DeletedTurns(ResponseModel):
    """The extent of a deletion."""


@describe_record(MessageHit)
class FoundMessageOut(ResponseModel):
    """A message that a search has found."""


class FoundMessages(ResponseModel):
    """The hits of a search, the newest first."""

    items: list[FoundMessageOut]


class Resetting(OnBranch):
    """A new, empty session of the profile."""

    session_id: str | None = Field(default=None, max_length=64)


class Reopening(OnBranch):
    """An earlier session of the profile."""

    session_id: str = Field(max_length=64)


class Publishing(OnBranch):
    """An artifact of the session as one of the store."""

    tag: str = Field(max_length=64)
    id: str | None = Field(default=None, max_length=128)
    """By default `<chat>/<tag>`."""


class TurnStarted(ResponseModel):
    """A turn that is on its way: `/events?run_id=` follows it."""

    run_id: str
    branch: str


class BranchMadeOut(ResponseModel):
    """A branch that can be talked on."""

    branch: str


class SessionNow(ResponseModel):
    """The session that the branch works with from now on."""

    session_id: str


class Published(ResponseModel):
    """A new version of an artifact."""

    ref: str


class RunEventOut(ResponseModel):
    """Something that happened in a run of a chat. What more it says depends on `type`."""

    model_config = {**ResponseModel.model_config, "extra": "allow"}

    seq: int | None
    """In the run, from 1; null for a delta, which is not stored."""
    type: str
    """`main_llm.started`, `main_llm.reasoning`, `main_llm.delta`, `main_llm.finished`, `operation.finished`,
    `run.finished`, ..."""
    at_us: int | None


class ForeignFileTaken(ResponseModel):
    """A file of another program that a chat has taken in."""

    chat_id: str
    kind: Literal["character", "lorebook", "persona", "preset", "chat"]
    name: str
    """Of who or what is in it; empty if it says none."""
    turns: int
    """How many were added."""
    warnings: list[str]
    """What was changed, left out, or is kept without being followed."""


@describe_record(ChatFileContents)
class CarriedChat(ResponseModel):
    """The content of an imported chat file."""
