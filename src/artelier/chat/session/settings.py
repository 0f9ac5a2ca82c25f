"""The settings of a chat: the participants, the model, the profile. Checked once, on entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from artelier.chat.turn.turn_config import HISTORY_MAX, SpeakerRule
from artelier.errors import CorruptStore, InvalidRequest, NotFound
from artelier.kernel.steps.failures import check_models
from artelier.operations.lore.macros import NAME_CHARS_MAX, VALUE_CHARS_MAX, VARIABLES_MAX
from artelier.operations.lore.prompt_places import DEPTH_MAX as NOTE_DEPTH_MAX
from artelier.operations.lore.prompt_places import PROMPTS_MAX, PlacedPrompt
from artelier.ports.model_params import check_params

if TYPE_CHECKING:
    from artelier.kernel.tenants.registry import TenantScope
    from artelier.operations.profile.operation_profile import OperationProfile

TEXT_CHARS_MAX = 1_000_000
"""Of one thing that somebody says, and of a system prompt (a guess: a long book chapter)."""
SETTINGS_BYTES_MAX = 4 * 1024 * 1024
GREETINGS_MAX = 200
HISTORY_TURNS_MAX = 10_000
MEMBERS_MAX = 32
"""Of a group (a guess)."""
LOREBOOKS_MAX = 16
"""Of one chat, that of its character apart."""
DEADLINE_S_MAX = 86_400
UNSET: Any = object()
"""Stands for an argument that was not given where None is a legal value."""

_CHAT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,119}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


class QuickReply(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Words that a person says at one press."""

    label: str
    text: str


class StoredChatSettings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The settings of a chat as they are stored."""

    model: str
    fallbacks: tuple[str, ...] = ()
    """Models that are asked for a reply in turn when `model` fails."""
    profile: str = ""
    """`id` for the newest version at each turn, or `id@version`; empty for plain main calls."""
    user: dict[str, Any] = {}
    """`{name, description, ...}`."""
    char: dict[str, Any] = {}
    """The character; of a group the one that begins."""
    group: tuple[dict[str, Any], ...] = ()
    """The characters of a chat with several, each as `char`; empty for one alone."""
    speaks: SpeakerRule = SpeakerRule.LIST
    """How the next speaker of a group is chosen."""
    system: str = ""
    scenario: str | None = None
    """Of this chat, in place of its characters'; empty for theirs. None until somebody gives one."""
    variables: dict[str, str] | None = None
    """The values of `{{getvar}}` at the beginning of each turn. None until somebody gives some."""
    prompts: tuple[PlacedPrompt, ...] = ()
    """The parts of a prompt in the order of a preset; empty for the usual order."""
    note: dict[str, Any] = {}
    """The author's note `{prompt, depth, role}`; empty for none."""
    quick_replies: tuple[QuickReply, ...] = ()
    """In the order in which they are offered."""
    lorebooks: tuple[str, ...] = ()
    """Refs; that of the character is in `char`."""
    preset: str = ""
    """The ref of the file with presets that it took in last, for its way out; empty for none."""
    params: dict[str, Any] = {}
    """Of the main call: `temperature`, `max_output_tokens`, ..."""
    history_max: int = HISTORY_MAX
    """Messages that a prompt shows at most."""
    deadline_ms: int = 0
    """Of each run; 0 for none."""
    principal: str = "operator"
    """In whose name artifacts are read and written."""

    @classmethod
    def from_stored(cls, stored: object) -> StoredChatSettings:
        """Errors: `CorruptStore` if what is stored is none."""
        try:
            return msgspec.convert(stored, cls)
        except msgspec.ValidationError as error:
            raise CorruptStore(f"the settings of a chat cannot be read: {error}") from None

    def encode(self) -> bytes:
        """Canonical JSON. Errors: `InvalidRequest` if they are too large."""
        content = msgspec.json.encode(self, order="sorted")
        if len(content) > SETTINGS_BYTES_MAX:
            raise InvalidRequest(
                "the settings of a chat are too large",
                expected=f"at most {SETTINGS_BYTES_MAX} bytes",
                got=len(content),
            )
        return content


CHANGEABLE = (
    "profile",
    "model",
    "fallbacks",
    "user",
    "char",
    "group",
    "speaks",
    "system",
    "scenario",
    "variables",
    "prompts",
    "note",
    "quick_replies",
    "lorebooks",
    "preset",
    "history_max",
    "deadline_s",
)
"""Settings that can be changed by name; other names are params of the main call."""


def replace_settings(settings: StoredChatSettings, wished: Mapping[str, Any]) -> StoredChatSettings:
    """Settings with some of them replaced; `UNSET` ones stay. Errors: `InvalidRequest`, `UnknownModel`.

    `user` and `char` are a name, or JSON with a name; `deadline_s` is in seconds.
    """
    fields: dict[str, Any] = {}
    for name, value in wished.items():
        if value is UNSET:
            continue
        if name in ("user", "char"):
            fields[name] = person(value, what=name)
        elif name == "group":
            fields[name] = group_members(value)
        elif name == "speaks":
            fields[name] = speaker_rule(value)
        elif name == "params":
            fields[name] = checked_params({**settings.params, **value})
        elif name == "deadline_s":
            fields["deadline_ms"] = deadline_ms(value)
        elif name == "history_max":
            fields[name] = HISTORY_MAX if value is None else _whole(value, name, HISTORY_TURNS_MAX)
        elif name == "lorebooks":
            fields[name] = lorebook_refs(value)
        elif name == "preset":
            fields[name] = "".join(lorebook_refs([value] if value else []))
        elif name in ("system", "scenario"):
            fields[name] = "" if value is None else checked_text(value, what=name)
        elif name == "variables":
            fields[name] = chat_variables(value)
        elif name == "prompts":
            fields[name] = placed_prompts(value)
        elif name == "note":
            fields[name] = author_note(value)
        elif name == "quick_replies":
            fields[name] = quick_replies(value)
        elif name == "fallbacks":
            fields[name] = () if value is None else _model_names(value)
        else:
            fields[name] = value
    if fields.get("group") and "char" not in fields:
        fields["char"] = fields["group"][0]
    changed = msgspec.structs.replace(settings, **fields)
    if fields.keys() & {"model", "fallbacks"}:
        check_models(None, (changed.model, *changed.fallbacks))
    return changed


def _model_names(value: object) -> tuple[str, ...]:
    try:
        return msgspec.convert(value, tuple[str, ...])
    except msgspec.ValidationError:
        raise InvalidRequest("fallbacks", expected="a list of models", got=repr(value)[:80]) from None


QUICK_REPLIES_MAX = 50
LABEL_CHARS_MAX = 60


def quick_replies(value: object) -> tuple[QuickReply, ...]:
    """Return quick replies of a list of `{label, text}`; none for None. Errors: `InvalidRequest`."""
    if value is None:
        return ()
    try:
        found = msgspec.convert(value, tuple[QuickReply, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            "quick replies", expected="a list of {label, text}", got=str(error)[:200]
        ) from None
    if len(found) > QUICK_REPLIES_MAX:
        raise InvalidRequest("quick replies", expected=f"at most {QUICK_REPLIES_MAX}", got=len(found))
    for one in found:
        said_text(one.text)
        is_label = 0 < len(one.label) <= LABEL_CHARS_MAX and one.label.isprintable()
        if not is_label or one.label.strip() != one.label:
            raise InvalidRequest(
                "label of a quick reply",
                expected=f"1 to {LABEL_CHARS_MAX} characters in one line",
                got=repr(one.label)[:80],
            )
    labels = [one.label for one in found]
    if len(set(labels)) < len(labels):
        raise InvalidRequest("labels of quick replies", expected="each once", got=", ".join(labels)[:200])
    return found


def chat_variables(value: object) -> dict[str, str]:
    """Return variables of a chat from JSON; `{}` for None. Errors: `InvalidRequest`."""
    try:
        found = msgspec.convert(value or {}, dict[str, str])
    except msgspec.ValidationError as error:
        raise InvalidRequest("variables", expected="texts by name", got=str(error)[:200]) from None
    if len(found) > VARIABLES_MAX:
        raise InvalidRequest("variables", expected=f"at most {VARIABLES_MAX:,}", got=len(found))
    for name, text in found.items():
        if len(checked_text(name, what="name of a variable")) > NAME_CHARS_MAX:
            raise InvalidRequest("name of a variable", expected=f"at most {NAME_CHARS_MAX:,} characters")
        if len(checked_text(text, what="variable")) > VALUE_CHARS_MAX:
            raise InvalidRequest(
                f"variable {name[:60]!r}", expected=f"at most {VALUE_CHARS_MAX:,} characters"
            )
    return found


def placed_prompts(value: object) -> tuple[PlacedPrompt, ...]:
    """Return the parts of a prompt of a list of them; none for None. Errors: `InvalidRequest`."""
    try:
        found = msgspec.convert(value or (), tuple[PlacedPrompt, ...], from_attributes=True)
    except (msgspec.ValidationError, RecursionError) as error:
        raise InvalidRequest(
            "prompts", expected="a list of {place, id, text, role, depth}", got=str(error)[:200]
        ) from None
    if len(found) > PROMPTS_MAX:
        raise InvalidRequest("prompts", expected=f"at most {PROMPTS_MAX}", got=len(found))
    for one in found:
        checked_text(one.text, what="a prompt")
        if one.depth is not None and not (one.place == "text" and 0 <= one.depth <= NOTE_DEPTH_MAX):
            raise InvalidRequest(
                "depth of a prompt", expected=f"0 to {NOTE_DEPTH_MAX}, of a text alone", got=one.depth
            )
    places = [one.place for one in found if one.place != "text"]
    if found and (len(set(places)) < len(places) or "history" not in places):
        raise InvalidRequest("prompts", expected="history, and each place once", got=", ".join(places)[:200])
    return found


def author_note(value: object) -> dict[str, Any]:
    """The author's note of a text, or of `{prompt, depth, role}`; `{}` for None. Errors: `InvalidRequest`."""
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        value = {"prompt": value}
    if not isinstance(value, Mapping):
        raise InvalidRequest("note", expected="a text, or {prompt, depth, role}", got=type(value).__name__)
    given = _json(dict(cast("Mapping[object, object]", value)), what="note")
    if unknown := sorted(given.keys() - {"prompt", "depth", "role"}):
        raise InvalidRequest("note", expected="prompt, depth, role", got=", ".join(unknown)[:200])
    depth, role = given.get("depth", 4), given.get("role", "system")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= NOTE_DEPTH_MAX:
        raise InvalidRequest(
            "depth of a note", expected=f"a whole number from 0 to {NOTE_DEPTH_MAX}", got=repr(depth)[:80]
        )
    if role not in ("system", "user", "assistant"):
        raise InvalidRequest("role of a note", expected="system, user or assistant", got=repr(role)[:80])
    prompt = checked_text(given.get("prompt"), what="note")
    return {"prompt": prompt, "depth": depth, "role": role} if prompt.strip() else {}


def check_chat(chat: object) -> str:
    """Errors: `InvalidRequest` for what cannot name a chat."""
    if not isinstance(chat, str) or not _CHAT.fullmatch(chat):
        raise InvalidRequest(
            "this cannot name a chat",
            expected="1-120 characters of A-Z a-z 0-9 . _ : -, the first a letter or a digit",
            got=repr(chat)[:140],
        )
    return chat


def check_name(name: object, *, what: str) -> str:
    """Check and return the name of a branch, or of a session of a profile. Errors: `InvalidRequest`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"this cannot name a {what}",
            expected="1-64 characters of A-Z a-z 0-9 _ . -, the first a letter or a digit",
            got=repr(name)[:100],
        )
    return name


def checked_text(text: object, *, what: str) -> str:
    """Text that can be stored. Errors: `InvalidRequest`."""
    if not isinstance(text, str):
        raise InvalidRequest(what, expected="text", got=type(text).__name__)
    if len(text) > TEXT_CHARS_MAX:
        raise InvalidRequest(what, expected=f"at most {TEXT_CHARS_MAX} characters", got=len(text))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(what, expected="Unicode text", got="a lone surrogate") from None
    return text


def said_text(text: object) -> str:
    """Return what a person says. Errors: `InvalidRequest`, also for nothing."""
    said = checked_text(text, what="what is said")
    if not said.strip():
        raise InvalidRequest("a turn needs words", expected="text", got="none")
    return said


def checked_greetings(greetings: object) -> tuple[str, ...]:
    """Errors: `InvalidRequest`."""
    if greetings is None:
        return ()
    given = [greetings] if isinstance(greetings, str) else greetings
    if not isinstance(given, list | tuple):
        raise InvalidRequest("greetings", expected="a list of texts", got=type(given).__name__)
    listed = cast("list[object] | tuple[object, ...]", given)
    if len(listed) > GREETINGS_MAX:
        raise InvalidRequest("greetings", expected=f"at most {GREETINGS_MAX}", got=len(listed))
    texts = [checked_text(one, what="a greeting") for one in listed]
    return tuple(text for text in texts if text.strip())


def person(value: object, *, what: str) -> dict[str, Any]:
    """A person of the chat as JSON data with a name; `{}` for None. Errors: `InvalidRequest`."""
    if value is None:
        return {}
    if isinstance(value, str):
        value = {"name": value}
    if not isinstance(value, Mapping):
        raise InvalidRequest(what, expected="a name, or JSON with a name", got=type(value).__name__)
    plain = _json(dict(cast("Mapping[object, object]", value)), what=what)
    name = plain.get("name")
    if not isinstance(name, str) or not 0 < len(name.strip()) <= 200:
        raise InvalidRequest(f"{what} needs a name", expected="1-200 characters", got=repr(name)[:80])
    return plain


def group_members(value: object) -> tuple[dict[str, Any], ...]:
    """The characters of a group, each a name or JSON with a name; None is no group.

    Errors: `InvalidRequest`.
    """
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidRequest("group", expected="a list of characters", got=type(value).__name__)
    listed = cast("list[object] | tuple[object, ...]", value)
    if len(listed) > MEMBERS_MAX:
        raise InvalidRequest("characters of a group", expected=f"at most {MEMBERS_MAX}", got=len(listed))
    members = tuple(person(one, what="a character of the group") for one in listed)
    names = [str(one.get("name", "")).casefold() for one in members]
    if "" in names or len(set(names)) < len(names):
        raise InvalidRequest(
            "group", expected="a name for each character, and each another one", got=", ".join(names)[:200]
        )
    return members


def speaker_rule(value: object) -> SpeakerRule:
    """Errors: `InvalidRequest`."""
    try:
        return SpeakerRule("list" if value is None else str(value))
    except ValueError:
        known = ", ".join(SpeakerRule)
        raise InvalidRequest("speaks", expected=f"one of {known}", got=repr(value)[:80]) from None


def lorebook_refs(value: object) -> tuple[str, ...]:
    """Refs of a chat's lorebooks; None is none. Errors: `InvalidRequest`."""
    from artelier.artifacts.ref import Ref

    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise InvalidRequest("lorebooks", expected="a list of refs", got=type(value).__name__)
    listed = cast("list[object] | tuple[object, ...]", value)
    if len(listed) > LOREBOOKS_MAX:
        raise InvalidRequest("lorebooks of a chat", expected=f"at most {LOREBOOKS_MAX}", got=len(listed))
    for one in listed:
        if not isinstance(one, str):
            raise InvalidRequest("a lorebook", expected="a ref", got=type(one).__name__)
    return tuple(dict.fromkeys(str(Ref.parse(cast("str", one))) for one in listed))


def checked_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Params of the main call; None takes one back. Errors: `InvalidRequest`."""
    plain = _json({name: value for name, value in params.items() if value is not None}, what="params")
    check_params(plain)
    limit = plain.get("max_output_tokens")
    if limit == 0:
        raise InvalidRequest("max_output_tokens", expected="a positive number of tokens", got=0)
    return plain


def deadline_ms(deadline_s: object) -> int:
    """Errors: `InvalidRequest`."""
    if deadline_s is None:
        return 0
    if (
        not isinstance(deadline_s, int | float)
        or isinstance(deadline_s, bool)
        or not 0 < deadline_s <= DEADLINE_S_MAX
    ):
        raise InvalidRequest(
            "deadline_s", expected=f"seconds, above 0 and at most {DEADLINE_S_MAX}", got=repr(deadline_s)[:80]
        )
    return max(1, round(deadline_s * 1_000))


def _whole(value: object, what: str, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidRequest(what, expected=f"a whole number from 1 to {most}", got=repr(value)[:80])
    return value


def whole(value: object, what: str) -> int:
    """A number of a turn or a variant. Errors: `InvalidRequest`."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise InvalidRequest(what, expected="a whole number from 0", got=repr(value)[:80])
    return value


def _json(value: dict[Any, Any], *, what: str) -> dict[str, Any]:
    """A copy that is plain JSON data. Errors: `InvalidRequest`."""
    try:
        content = msgspec.json.encode(value)
        plain = msgspec.json.decode(content)
    except (TypeError, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InvalidRequest(what, expected="JSON data", got=str(error)[:200]) from None
    if len(content) > SETTINGS_BYTES_MAX:
        raise InvalidRequest(what, expected=f"at most {SETTINGS_BYTES_MAX} bytes", got=len(content))
    return plain


async def profile_setting(desk: TenantScope, profile: object, *, by: str) -> str:
    """Return how a chat's settings name a profile: it is saved if it is an object or a shipped one's name.

    Errors: `NotFound`, `InvalidProfile`, `AccessDenied`, `InvalidRequest` for something else.
    """
    if profile is None or profile == "":
        return ""
    found, ref = await profile_given(desk, profile, by=by)
    return ref if isinstance(profile, str) and "@" in profile else found.profile_id


async def profile_given(
    desk: Any, profile: object, *, by: str, check: Callable[[OperationProfile], None] | None = None
) -> tuple[OperationProfile, str]:
    """Return what was given as a profile, and its ref `id@version`; an object, or a shipped one's name, is
    saved.

    `check` raises for a profile that does not fit; such a one is not saved.
    Errors: those of `check`; `NotFound`, `InvalidProfile`, `AccessDenied`; `InvalidRequest` for others.
    """
    from artelier.operations.profile.operation_profile import OperationProfile
    from artelier.operations.profile.profile_reader import load_profile
    from artelier.operations.profile.store import SHIPPED

    if not isinstance(profile, str | OperationProfile):
        raise InvalidRequest(
            "profile", expected="an OperationProfile, its id or ref, or None", got=repr(profile)[:80]
        )
    ref = ""
    if isinstance(profile, OperationProfile):
        found = profile
    else:
        try:
            found, ref = await load_profile(desk, profile, by=by)
        except NotFound:
            if profile not in SHIPPED:
                raise
            found = OperationProfile.shipped(profile)
    if check is not None:
        check(found)
    return found, ref or await found.save(desk, by=by)


async def profile_of(desk: TenantScope, settings: StoredChatSettings) -> tuple[OperationProfile | None, str]:
    """The profile that a turn works with now, and its ref; `(None, "")` for a plain main call."""
    if not settings.profile:
        return None, ""
    from artelier.operations.profile.profile_reader import load_profile

    return await load_profile(desk, settings.profile, by=settings.principal)
