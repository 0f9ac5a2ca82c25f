"""Presets of chat front ends: how a model is asked, and the prompts around a chat. As data.

A preset gives a chat its parameters, a system prompt and a note near the end. Read are presets of SillyTavern
for chat completion, text completion, KoboldAI and NovelAI, and its export of system prompt and formatting.
What has no equal is named; addresses, headers and passwords in a file are never taken over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.errors import ArtelierError, InvalidImport
from artelier.operations.lore.untrusted_files import (
    FileProblems,
    Source,
    as_dict,
    as_list,
    listed,
    one_line,
    read_json,
    source_bytes,
)
from artelier.ports.model_params import EFFORTS, check_params
from artelier.tokens import Window, estimate_tokens

FILE_BYTES_MAX = 4 * 1024 * 1024

_PARAMS = {
    "temperature": "temperature",
    "temp": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "min_p": "min_p",
    "frequency_penalty": "frequency_penalty",
    "freq_pen": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "presence_pen": "presence_penalty",
    "seed": "seed",
    "openai_max_tokens": "max_output_tokens",
    "genamt": "max_output_tokens",
    "max_length": "max_output_tokens",
}
"""Fields of presets by the parameter that they are here."""

_OFF: Mapping[str, float] = {
    "top_k": 0,
    "top_p": 1,
    "min_p": 0,
    "frequency_penalty": 0,
    "presence_penalty": 0,
}
"""Values that switch a sampler off there: no value here."""

_WHOLE = frozenset(("top_k", "seed", "max_output_tokens"))

_EXTRA = {
    "repetition_penalty": "repetition_penalty",
    "rep_pen": "repetition_penalty",
    "typical_p": "typical_p",
}
"""Samplers of some servers only, which `extra` hands on."""

_FORMATTING = ("instruct", "context", "sysprompt")
_QUIET = frozenset(
    ("name", "prompts", "prompt_order", "extensions", "stream_openai", "n", "max_context_unlocked", "type")
)
"""Fields that say nothing about what a model is asked, or are read elsewhere."""

_SECRETS = (
    "proxy",
    "password",
    "header",
    "secret",
    "token_",
    "api_key",
    "apikey",
    "api-key",
    "authoriz",
    "credential",
    "service_account",
    "reverse",
    "url",
    "custom_",
)
"""Parts of names of fields that can hold addresses and secrets: they are not looked at, and not kept."""

_DEFAULT_ORDER = "100001"
"""The order of prompts that is used, where a file has several."""


NOTE_DEPTH_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The settings of a preset for a chat: arguments of `Session.open`."""

    name: str
    params: Mapping[str, Any]
    """Parameters of model calls."""
    system: str = ""
    """Its prompts before the conversation, in their order; empty if it has none."""
    note: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """`{prompt, depth, role}` of its prompts after the conversation; empty for none."""
    prompts: int = 0
    """How many prompts of the file stand in `system` and `note`."""
    content: bytes = field(default=b"", repr=False)
    """The file for its way out: its bytes, or without addresses and passwords if it had some."""
    warnings: tuple[str, ...]
    """The changes and omissions, in words."""

    def size_warnings(self, model: str, window: Window) -> tuple[str, ...]:
        """Return a note for each way in which the prompts alone are too long for a model."""
        text = f"{self.system}{self.note.get('prompt') or ''}"
        tokens, room = estimate_tokens(text), window.prompt_tokens_max(self.params.get("max_output_tokens"))
        if tokens <= room:
            return ()
        return (
            f"prompts: {self.prompts:,} with {len(text):,} characters are about {tokens:,} tokens,"
            f" and {model} takes {room:,}: every turn fails until you shorten them or take a model"
            " with a larger context",
        )


def read_preset(source: Source, *, name: str = "") -> Preset:
    """Return a preset from a JSON file, or from its bytes.

    Errors: `InvalidImport` for what is no preset; `NotFound` for no such file.
    """
    content = source_bytes(source, limit_bytes=FILE_BYTES_MAX)
    value = read_json(content, what="the preset")
    if not isinstance(value, dict):
        raise InvalidImport("this is no preset", expected="an object", got=safe_repr(value))
    given = cast("dict[str, Any]", value)
    notes = FileProblems()
    called = one_line(str(given.get("name") or name))[:200]
    open_ = _without_secrets(given)
    if open_ != given:
        notes.warn("addresses, headers and passwords of other servers are not taken over")
        content = msgspec.json.format(msgspec.json.encode(open_), indent=4)
    if isinstance(given.get("content"), str) and given.keys() <= {"name", "content", "post_history"}:
        return replace(_formatting({"sysprompt": given}, called, notes), content=content)
    if any(isinstance(given.get(part), dict) for part in _FORMATTING):
        return replace(_formatting(given, called, notes), content=content)
    if templates := [name for name in ("story_string", "input_sequence") if name in given]:
        raise InvalidImport(
            "this is a template of text completion",
            expected="samplers or prompts",
            got=templates[0],
            hint="Models are asked in messages here, which need none.",
        )
    params = _params(given, notes)
    before, after, note = _prompts(given, notes)
    has_samplers = any(given.get(name) is not None for name in (*_PARAMS, *_EXTRA))
    if not params and not before and not after and not note and not has_samplers:
        raise InvalidImport(
            "this is no preset",
            expected="samplers or prompts",
            got=", ".join(list(given)[:10])[:200] or "an empty object",
        )
    if after:
        note = {"prompt": "\n\n".join(after), "depth": 0, "role": "system"}
    return Preset(
        name=called,
        params=params,
        system="\n\n".join(before),
        note=note,
        prompts=len(before) + (len(after) or bool(note)),
        content=content,
        warnings=notes.warnings,
    )


def _without_secrets(value: object) -> object:
    """Return JSON without the fields that can hold addresses and secrets, at any depth."""
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {name: _without_secrets(one) for name, one in fields if not (one and _is_secret(name, one))}
    return [_without_secrets(one) for one in cast("list[Any]", value)] if isinstance(value, list) else value


def _is_secret(name: str, value: object) -> bool:
    low = name.lower()
    if isinstance(value, bool | int | float):
        return False
    return low.endswith("token") or any(part in low for part in _SECRETS)


def _params(given: Mapping[str, Any], notes: FileProblems) -> dict[str, Any]:
    found: dict[str, Any] = {}
    unfollowed: list[str] = []
    for name, value in given.items():
        if name == "max_length" and "genamt" in given:
            continue  # the context there, where `genamt` is the reply
        if _is_secret(name, value):
            continue
        if name in _PARAMS:
            _param(_PARAMS[name], name, value, found, notes)
        elif name in _EXTRA and isinstance(value, int | float) and not isinstance(value, bool):
            if value != 1:
                found.setdefault("extra", {})[_EXTRA[name]] = value
        elif name == "reasoning_effort" and value in EFFORTS:
            found["thinking"] = value
        elif name not in _QUIET and value not in (None, "", [], {}, False, 0, 1):
            unfollowed.append(name)
    if unfollowed:
        notes.warn(f"kept, but not followed: {listed(unfollowed)}")
    return found


def _param(param: str, name: str, value: object, found: dict[str, Any], notes: FileProblems) -> None:
    """Take a parameter over, unless it is off there or has a value that none has here."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            notes.warn(f"{name}: {safe_repr(value)} is no number; left out")
            return
    if not isinstance(value, int | float) or isinstance(value, bool):
        if value is not None:
            notes.warn(f"{name}: {safe_repr(value)} is no number; left out")
        return
    if _OFF.get(param) == value or (param == "seed" and value < 0):
        return
    taken = int(value) if param in _WHOLE and value == int(value) else value
    try:
        check_params({param: taken})
        if param == "max_output_tokens" and taken == 0:
            raise InvalidImport("an answer without tokens")
    except ArtelierError as error:
        notes.warn(f"{name}: {safe_repr(value)} is out of range; left out ({error})"[:300])
        return
    found[param] = taken


def _prompts(given: Mapping[str, Any], notes: FileProblems) -> tuple[list[str], list[str], dict[str, Any]]:
    """Return the texts before the conversation and those after it, in the order of the preset, and its one
    text at a depth as a note; several texts after the conversation stand together."""
    texts = _by_id(given, notes)
    if not texts:
        return [], [], {}
    before: list[str] = []
    after: list[str] = []
    inside: list[Mapping[str, Any]] = []
    is_after = False
    seen: set[str] = set()
    for id_, is_on in _order(given, notes) or [(id_, True) for id_ in texts]:
        if id_ not in texts:
            notes.warn(f"prompt_order: names {id_[:60]!r}, which is not there")
            continue
        if id_ in seen:
            notes.warn(f"prompt_order: names {id_[:60]!r} twice; the first counts")
            continue
        seen.add(id_)
        prompt = texts[id_]
        if id_ == "chatHistory":
            is_after = True
        elif is_on and not prompt.get("marker"):
            text = prompt.get("content")
            if not isinstance(text, str) or not text.strip():
                continue
            if prompt.get("injection_position") == 1:
                inside.append({**prompt, "identifier": id_})
            else:
                (after if is_after else before).append(text)
    _note_places(given, notes)
    if left := [id_ for id_ in texts if id_ not in seen and texts[id_].get("content")]:
        notes.warn(f"prompts without a place stand in no prompt: {listed(left)}")
    if len(inside) == 1 and not after and (note := _note(inside[0])):
        return before, after, note
    for prompt in inside:
        name, depth = str(prompt["identifier"])[:40], prompt.get("injection_depth")
        notes.warn(f"prompt {name!r}: stands after the conversation here, not at depth {depth}")
    return before, [*after, *(str(prompt["content"]) for prompt in inside)], {}


_PLACES = {
    "worldInfoBefore": "lore",
    "charDescription": "description",
    "charPersonality": "personality",
    "scenario": "scenario",
    "dialogueExamples": "examples",
    "worldInfoAfter": "more lore",
    "personaDescription": "persona",
    "chatHistory": "history",
}
"""Places of a preset for what a chat has, in the order of our prompts."""


def _note_places(given: Mapping[str, Any], notes: FileProblems) -> None:
    """Note of which places a preset says something that is not followed."""
    placed = [(id_, is_on) for id_, is_on in _order(given, FileProblems()) if id_ in _PLACES]
    if off := [_PLACES[id_] for id_, is_on in placed if not is_on]:
        notes.warn(f"prompt_order: {', '.join(off)}: off there; what a chat has of it stands in its prompts")
    wanted, ours = [id_ for id_, is_on in placed if is_on], list(_PLACES)
    if wanted != sorted(wanted, key=ours.index):
        order = ", ".join(_PLACES.values())
        notes.warn(f"prompt_order: what a chat has stands in the order of prompts here: {order}")


def _note(prompt: Mapping[str, Any]) -> dict[str, Any]:
    """Return a text that stands among the messages as a note; empty if it says no depth."""
    depth, role = prompt.get("injection_depth", 4), prompt.get("role", "system")
    if not isinstance(depth, int) or isinstance(depth, bool) or not 0 <= depth <= NOTE_DEPTH_MAX:
        return {}
    known = role if role in ("system", "user", "assistant") else "system"
    return {"prompt": prompt["content"], "depth": depth, "role": known}


def _by_id(given: Mapping[str, Any], notes: FileProblems) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for number, one in enumerate(as_list(given.get("prompts"))):
        if not isinstance(one, dict):
            notes.warn(f"prompts[{number}]: left out: expected an object, got {safe_repr(one)}")
            continue
        prompt = cast("dict[str, Any]", one)
        id_ = str(prompt.get("identifier") or prompt.get("name") or number)
        if id_ in found:
            notes.warn(f"prompts: two are called {id_[:60]!r}; the first counts")
        else:
            found[id_] = prompt
    return found


def _order(given: Mapping[str, Any], notes: FileProblems) -> list[tuple[str, bool]]:
    orders = [
        cast("dict[str, Any]", one) for one in as_list(given.get("prompt_order")) if isinstance(one, dict)
    ]
    if not orders:
        return []
    chosen = next((one for one in orders if str(one.get("character_id")) == _DEFAULT_ORDER), orders[0])
    if len(orders) > 1:
        notes.warn(f"prompt_order: of {len(orders)}, that of {str(chosen.get('character_id'))[:40]} is used")
    return list(_ordered(chosen))


def _ordered(order: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    for one in as_list(order.get("order")):
        if isinstance(one, dict):
            entry = cast("dict[str, Any]", one)
            yield str(entry.get("identifier")), entry.get("enabled") is not False


def _formatting(given: Mapping[str, Any], called: str, notes: FileProblems) -> Preset:
    """An export of formatting: the system prompt and what stands after the conversation."""
    system, instruct = (as_dict(given.get(part)) for part in ("sysprompt", "instruct"))
    text, after = system.get("content"), system.get("post_history")
    stop = instruct.get("stop_sequence")
    left = [part for part in ("instruct", "context") if as_dict(given.get(part))]
    if left:
        notes.warn(f"kept, but not followed: {', '.join(left)}: models are asked in messages here")
    is_note = isinstance(after, str) and after.strip()
    return Preset(
        name=called or one_line(str(system.get("name") or instruct.get("name") or ""))[:200],
        params={"stop": [stop]} if isinstance(stop, str) and stop else {},
        system=text if isinstance(text, str) else "",
        note={"prompt": after, "depth": 0, "role": "system"} if is_note else {},
        prompts=2 if is_note else 1,
        warnings=notes.warnings,
    )


def write_preset(
    name: str, *, params: Mapping[str, Any], system: str, note: Mapping[str, Any], base: bytes | None = None
) -> bytes:
    """Return a preset for chat completion; `read_preset` gives an equal one.

    `base`: the preset that the chat took in. It goes out as it is, but for what the chat says otherwise now.
    Parameters that such a file has no field for are left out.
    """
    fields: dict[str, Any] = {"name": name}
    before = None if base is None else read_preset(base)
    if before is not None and (before.params, before.system, before.note) == (params, system, note):
        return before.content
    given: dict[str, Any] = {} if base is None else read_json(base, what="the preset")
    # An export of formatting has no place for samplers.
    if before is None or any(part in given for part in (*_FORMATTING, "content")):
        fields |= {**_samplers(params, {}), **_prompt_fields(system, note)}
    else:
        fields = _changed(given, before.params, params)
        is_told = (before.system, before.note) == (system, note)
        fields |= {} if is_told else _prompt_fields(system, note)
    return msgspec.json.format(msgspec.json.encode(fields), indent=4)


def _changed(fields: Mapping[str, Any], before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a preset with the parameters that are others now."""
    ours: dict[str, Any] = {name: value for name, value in now.items() if before.get(name) != value}
    extra, was = as_dict(now.get("extra")), as_dict(before.get("extra"))
    gone = {name for name in before if name not in now} | {name for name in was if name not in extra}
    names = {**_PARAMS, **_EXTRA, "reasoning_effort": "thinking"}
    if "genamt" in fields:
        del names["max_length"]
    left = {name: value for name, value in fields.items() if names.get(name) not in gone}
    return left | _samplers(ours, left)


def _samplers(params: Mapping[str, Any], among: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters by the names that they have `among` the fields of a preset, or the usual ones."""
    names = {param: field for field, param in _PARAMS.items() if field not in ("temp", "freq_pen")}
    names |= {"max_output_tokens": "openai_max_tokens", "presence_penalty": "presence_penalty"}
    own = {**_PARAMS, **_EXTRA}
    if "genamt" in among:
        del own["max_length"]
    names |= {"repetition_penalty": "repetition_penalty", "typical_p": "typical_p"}
    names |= {own[field]: field for field in among if field in own}
    fields = {names[param]: value for param, value in params.items() if param in names}
    fields |= {"reasoning_effort": params["thinking"]} if params.get("thinking") in EFFORTS else {}
    extra = as_dict(params.get("extra"))
    known = ("repetition_penalty", "typical_p")
    return fields | {names[name]: extra[name] for name in known if name in extra}


def _prompt_fields(system: str, note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prompts of a chat as a preset has them."""
    history = {"identifier": "chatHistory", "name": "Chat History", "marker": True, "system_prompt": True}
    prompts: list[dict[str, Any]] = [history]
    if system:
        main = {"identifier": "main", "name": "Main Prompt", "system_prompt": True}
        prompts.insert(0, {**main, "role": "system", "content": system})
    if note:
        place = {"injection_position": 1, "injection_depth": note["depth"]}
        own = {"identifier": "note", "name": "Note", "role": note["role"], "content": note["prompt"]}
        prompts.append({**own, **place})
    order = [{"identifier": one["identifier"], "enabled": True} for one in prompts]
    return {"prompts": prompts, "prompt_order": [{"character_id": int(_DEFAULT_ORDER), "order": order}]}
