"""Presets of chat front ends: how a model is asked, and the prompts around a chat. As data.

A preset gives a chat its parameters, and all parts of its prompts in their order. Read are presets of
SillyTavern for chat completion, text completion, KoboldAI and NovelAI, and its export of formatting.
What has no equal is named; addresses, headers and passwords in a file are never taken over.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from artelier.artifacts.ref import safe_repr
from artelier.errors import ArtelierError, InvalidImport
from artelier.operations.lore.prompt_places import DEPTH_MAX, USUAL, PlacedPrompt, PromptPlace, all_parts
from artelier.operations.lore.schemas import NAME_CHARS_MAX
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
    (
        "name",
        "prompts",
        "prompt_order",
        "extensions",
        "stream_openai",
        "squash_system_messages",
        "n",
        "max_context_unlocked",
        "type",
    )
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """The settings of a preset for a chat: arguments of `Session.open`."""

    name: str
    params: Mapping[str, Any]
    """Parameters of model calls."""
    has_prompts: bool = False
    """False for a file of samplers alone, which leaves the prompts of a chat as they are."""
    system: str = ""
    """Its main prompt."""
    prompts: tuple[PlacedPrompt, ...] = ()
    """All parts of a prompt in its order; empty for the usual one."""
    content: bytes = field(default=b"", repr=False)
    """The file for its way out: its bytes, or without addresses and passwords if it had some."""
    warnings: tuple[str, ...]
    """The changes and omissions, in words."""

    def size_warnings(self, model: str, window: Window) -> tuple[str, ...]:
        """Return a note for each way in which the prompts alone are too long for a model."""
        texts = [text for text in (self.system, *(one.text for one in self.prompts)) if text]
        text = "".join(texts)
        tokens, room = estimate_tokens(text), window.prompt_tokens_max(self.params.get("max_output_tokens"))
        if tokens <= room:
            return ()
        return (
            f"prompts: {len(texts):,} with {len(text):,} characters are about {tokens:,} tokens,"
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
    system, prompts = _prompts(given, notes)
    has_samplers = any(given.get(name) is not None for name in (*_PARAMS, *_EXTRA))
    has_prompts = bool(system or prompts)
    if not params and not has_prompts and not has_samplers:
        raise InvalidImport(
            "this is no preset",
            expected="samplers or prompts",
            got=", ".join(list(given)[:10])[:200] or "an empty object",
        )
    return Preset(
        name=called,
        params=params,
        has_prompts=has_prompts,
        system=system,
        prompts=prompts,
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
        elif name not in _QUIET and (value is True or value not in (None, "", [], {}, 0, 1)):
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


_PLACES: Mapping[str, PromptPlace] = {
    "main": "main",
    "worldInfoBefore": "lore_before",
    "personaDescription": "persona",
    "charDescription": "description",
    "charPersonality": "personality",
    "scenario": "scenario",
    "worldInfoAfter": "lore_after",
    "dialogueExamples": "example_dialogue",
    "chatHistory": "history",
    "jailbreak": "after",
}
"""Prompts of a preset that are places here."""
_IDS = {place: id_ for id_, place in _PLACES.items()}
_DEPTH = 4
"""Of a text among the messages that says none."""


def _prompts(given: Mapping[str, Any], notes: FileProblems) -> tuple[str, tuple[PlacedPrompt, ...]]:
    """Return the main prompt of a preset, and all parts in their order; none for the usual order."""
    texts, main = _by_id(given, notes), ""
    parts: list[PlacedPrompt] = []
    inside: list[tuple[float, int, PlacedPrompt]] = []
    seen: set[str] = set()
    for id_, is_on in (_order(given, notes) or [(id_, True) for id_ in texts]) if texts else ():
        if id_ in seen:
            notes.warn(f"prompt_order: names {id_[:60]!r} twice; the first counts")
        elif id_ not in texts and id_ not in _PLACES:
            notes.warn(f"prompt_order: names {id_[:60]!r}, which is not there")
        elif (part := _part(id_, texts.get(id_, {}), notes, is_on=is_on)) is None:
            pass
        elif part.depth is None:
            main = part.text if part.place == "main" else main
            parts.append(msgspec.structs.replace(part, text="") if part.place == "main" else part)
        else:
            order = texts[id_].get("injection_order", 100)
            weight = order if isinstance(order, int | float) else 100
            inside.append((weight, _LOWER.index(part.role), part))
        seen.add(id_)
    if left := [id_ for id_ in texts if id_ not in seen and (id_ in _PLACES or texts[id_].get("content"))]:
        notes.warn(f"prompts without a place stand in no prompt: {listed(left)}")
    if not texts:
        return "", ()
    whole = _with_places(parts, {*seen, *texts})
    # Of one depth the highest order stands nearest to the end, and of one order the system's words.
    whole += [part for _, _, part in sorted(inside, key=lambda one: one[:2])]
    return main, () if tuple(whole) == USUAL else tuple(whole)


_LOWER = ("assistant", "user", "system")


def _part(id_: str, prompt: Mapping[str, Any], notes: FileProblems, *, is_on: bool) -> PlacedPrompt | None:
    """Return a prompt as a part; None for one that is off, or has no words."""
    content, place = prompt.get("content"), _PLACES.get(id_, "text")
    text = content if isinstance(content, str) and content.strip() else ""
    if place == "history":
        if not is_on:
            notes.warn("prompt_order: history: off there; every prompt has it here")
        return PlacedPrompt(place=place)
    if not is_on or (place == "text" and prompt.get("marker")):
        return None
    if place not in ("main", "after", "text"):
        return PlacedPrompt(place=place)
    role, triggers = prompt.get("role"), as_list(prompt.get("injection_trigger"))
    part = PlacedPrompt(
        place=place,
        text=text,
        role=role if role in _LOWER else "system",
        is_fixed=prompt.get("forbid_overrides") is True,
    )
    is_inside = prompt.get("injection_position") == 1
    if place != "text" and not is_inside:
        return part
    if not text:
        return None
    return msgspec.structs.replace(
        part,
        place="text",
        id=id_[:NAME_CHARS_MAX],
        depth=_depth(id_, prompt, notes) if is_inside else None,
        triggers=tuple(one for one in triggers if isinstance(one, str)),
        is_fixed=False,
    )


def _depth(id_: str, prompt: Mapping[str, Any], notes: FileProblems) -> int:
    depth = prompt.get("injection_depth", _DEPTH)
    if isinstance(depth, int) and not isinstance(depth, bool) and 0 <= depth <= DEPTH_MAX:
        return depth
    notes.warn(f"prompt {id_[:40]!r}: injection_depth: {safe_repr(depth)} is none; it stands at {_DEPTH}")
    return _DEPTH


def _with_places(parts: Sequence[PlacedPrompt], named: Collection[str]) -> list[PlacedPrompt]:
    """Return the parts with the places that a preset does not name: they are on, as in the usual order. So is
    the history, whatever it says."""
    has_history = any(one.place == "history" for one in parts)
    added = [
        one for one in USUAL if _IDS[one.place] not in named or (one.place == "history" and not has_history)
    ]
    before = [one for one in added if one.place not in ("main", "history", "after")]
    at = next((number for number, one in enumerate(parts) if one.place == "history"), len(parts))
    return [
        *(one for one in added if one.place == "main"),
        *parts[:at],
        *before,
        *(one for one in added if one.place == "history"),
        *parts[at:],
        *(one for one in added if one.place == "after"),
    ]


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
    prompts = ()
    if isinstance(after, str) and after.strip():
        prompts = (*USUAL[:-1], PlacedPrompt(place="after", text=after))
    return Preset(
        name=called or one_line(str(system.get("name") or instruct.get("name") or ""))[:200],
        params={"stop": [stop]} if isinstance(stop, str) and stop else {},
        has_prompts=True,
        system=text if isinstance(text, str) else "",
        prompts=prompts,
        warnings=notes.warnings,
    )


def write_preset(
    name: str,
    *,
    params: Mapping[str, Any],
    system: str,
    prompts: Sequence[PlacedPrompt] = (),
    base: bytes | None = None,
) -> bytes:
    """Return a preset for chat completion; `read_preset` gives an equal one.

    `base`: the preset that the chat took in. It goes out as it is, but for what the chat says otherwise now.
    Parameters that such a file has no field for are left out.
    """
    before = None if base is None else read_preset(base)
    now = (system, tuple(prompts))
    is_told = before is not None and (before.system, before.prompts) == now
    if before is not None and is_told and before.params == params:
        return before.content
    given: dict[str, Any] = {} if base is None else read_json(base, what="the preset")
    # An export of formatting has no place for samplers.
    if before is None or any(part in given for part in (*_FORMATTING, "content")):
        fields = {"name": name, **_samplers(params, {}), **_prompt_fields(system, prompts, {})}
    else:
        fields = _changed(given, before.params, params)
        main = _by_id(given, FileProblems()).get("main")
        if before.prompts == now[1] and main and any(one.place == "main" for one in prompts or USUAL):
            main["content"] = system  # everything else stays as it came in
            fields["prompts"] = given["prompts"]
        elif not is_told:
            fields |= _prompt_fields(system, prompts, given)
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


def _prompt_fields(system: str, prompts: Sequence[PlacedPrompt], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return the prompts of a chat as a preset has them. Those of `base` that are in no prompt are off."""
    if not system and not prompts and not base.get("prompts"):
        return {}
    known = _by_id(base, FileProblems())
    whole = all_parts(prompts, has_system=bool(system))
    parts: dict[str, PlacedPrompt] = {}
    for at, one in enumerate(whole):
        own = one.id if one.id not in _PLACES and one.id not in parts else ""
        parts[_IDS.get(one.place) or own or f"text-{at}"] = one
    written = [_prompt(id_, one, known.get(id_), system) for id_, one in parts.items()]
    off = [id_ for id_, _ in _order(base, FileProblems()) if id_ in known and id_ not in parts]
    left = [prompt for id_, prompt in known.items() if id_ not in parts]
    placed = {_PLACES[id_] for id_ in off if id_ in _PLACES} | {one.place for one in parts.values()}
    off += [_IDS[one.place] for one in USUAL if one.place not in placed]
    order = [{"identifier": id_, "enabled": True} for id_ in parts]
    order += [{"identifier": id_, "enabled": False} for id_ in off]
    orders = [{"character_id": int(_DEFAULT_ORDER), "order": order}]
    return {"prompts": [*written, *left], "prompt_order": orders}


def _prompt(id_: str, one: PlacedPrompt, known: Mapping[str, Any] | None, system: str) -> dict[str, Any]:
    fields: dict[str, Any] = {"identifier": id_, "name": id_, **(known or {})}
    if one.place not in ("main", "after", "text"):
        return {**fields, "system_prompt": True, "marker": True}
    text = system if one.place == "main" else one.text
    fields |= {"role": one.role, "content": text, "system_prompt": one.place != "text", "marker": False}
    if one.is_fixed or "forbid_overrides" in fields:
        fields["forbid_overrides"] = one.is_fixed
    if one.triggers or "injection_trigger" in fields:
        fields["injection_trigger"] = list(one.triggers)
    if one.depth is not None:
        return fields | {"injection_position": 1, "injection_depth": one.depth}
    return fields | {"injection_position": 0}
