"""Profiles of TaleSpinner as profiles of Artelier: its profile bundles, its general bundles, its older form.

A file becomes the JSON data of an `OperationProfile`; whoever stores it parses that as any other. Operations
of a kind that has no equal here are kept, switched off, and named. Formats: `operation_profile_bundle` 2,
`talespinner.bundle` 1, and profiles of version 1 with their operations inside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from artelier.errors import InvalidImport
from artelier.operations.lore.untrusted_files import (
    FileProblems,
    ForeignFields,
    Source,
    as_dict,
    one_line,
    read_json,
    source_bytes,
)
from artelier.operations.profile.definition import HOOKS, INCLUSIONS_MAX, OPERATIONS_MAX, TAG, VERSIONS_MAX

# Templates and JSON shapes of TaleSpinner in the forms of Artelier: other names for the same values.

_RECENT = re.compile(r"\{\{-?\s*recentMessagesText\(\s*(\d{1,4})\s*\)\s*-?\}\}")
_RECENT_TOKENS = re.compile(r"\{\{-?\s*recentMessagesByContextTokensText\(\s*\d{1,9}\s*\)\s*-?\}\}")
RECENT_MESSAGES = 20
"""Messages that stand for those within a number of tokens (a guess: a short scene)."""
_BY_OPERATION = re.compile(r"""artByOpId\[\s*["']([^"'\]]{1,100})["']\s*\]""")
_HISTORY = re.compile(r"\b(art\.[a-z][a-z0-9_]*)\.history\b")
_TAGS = re.compile(r"\bart\.([a-z][a-z0-9_]*)")
_NAMES = {"lastUserMessage": "text", "lastAssistantMessage": "reply"}
"""Names of values by those that they have here. `reply` has one only after the main call, as there."""
_WORD = re.compile(r"\b(" + "|".join(_NAMES) + r")\b")
_ENDS = {"{{": "}}", "{%": "%}"}
_BEGIN = re.compile(r"\{\{|\{%")

_TYPES = {"string": "string", "number": "number", "integer": "integer", "boolean": "boolean", "any": None}
_DEPTH_MAX = 20


def own_template(text: str, tags: Mapping[str, str], path: str, notes: FileProblems) -> str:
    """Return a template with the names that values have here. `tags` are those of artifacts, by operation.

    What stands outside of tags is text and stays. What stands for something else is named.
    Cost: O(length).
    """
    if "{" not in text:
        return text
    text = _RECENT.sub(lambda match: _recent(int(match[1])), text)
    text, count = _RECENT_TOKENS.subn(_recent(RECENT_MESSAGES), text)
    if count:
        notes.warn(f"{path}: the last {RECENT_MESSAGES} messages stand for recentMessagesByContextTokensText")
    return "".join(_own_code(part, tags) if is_code else part for is_code, part in _text_parts(text))


def _text_parts(text: str) -> Iterator[tuple[bool, str]]:
    """Give the pieces of a template in order, each with True if it is a tag; an open tag is text."""
    at = 0
    open_ends = set[str]()
    while (begin := _BEGIN.search(text, at)) is not None:
        end = _ENDS[begin[0]]
        close = -1 if end in open_ends else text.find(end, begin.end())
        if close < 0:  # it is not there further on either: looking again would cost the length each time
            open_ends.add(end)
            yield False, text[at : begin.end()]
            at = begin.end()
            continue
        yield False, text[at : begin.start()]
        at = close + len(end)
        yield True, text[begin.start() : at]
    yield False, text[at:]


def _recent(count: int) -> str:
    """Return the template of the last messages: `role: content`, a line each."""
    return (
        f"{{% assign recent = chat_history | last: {count} %}}"
        "{% for one in recent %}{{ one.role }}: {{ one.content }}"
        "{% unless forloop.last %}\n{% endunless %}{% endfor %}"
    )


def _own_code(code: str, tags: Mapping[str, str]) -> str:
    code = _BY_OPERATION.sub(lambda match: f"art.{tags.get(match[1], 'missing')}", code)
    code = _HISTORY.sub(r"\1.values", code)
    return _WORD.sub(lambda match: _NAMES[match[1]], code)


def read_tags(operations: Sequence[Mapping[str, Any]], tags: Mapping[str, str]) -> set[str]:
    """Return the tags of artifacts that texts of operations read."""
    found: set[str] = set()
    waiting: list[object] = [*operations]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            found |= set(_TAGS.findall(value))
            found |= {tags[name] for name in _BY_OPERATION.findall(value) if name in tags}
        elif isinstance(value, Mapping):
            waiting += cast("Mapping[str, object]", value).values()
        elif isinstance(value, list):
            waiting += cast("list[object]", value)
    return found


def json_schema(shape: object, path: str, notes: FileProblems, *, depth: int = 0) -> dict[str, Any]:
    """Return the JSON Schema of a shape such as `{"who": "string: a name", "mood?": "string"}`.

    A key with `?` may be missing. What is a JSON Schema already stays.
    """
    if depth > _DEPTH_MAX:
        notes.problem(f"{path}: nested too deeply")
        return {}
    if isinstance(shape, str):
        word, _, about = shape.partition(":")
        if word.strip() not in _TYPES:
            notes.warn(f"{path}: {word.strip()[:40]!r} is no type here; anything is taken")
        kind = _TYPES.get(word.strip())
        return ({"type": kind} if kind else {}) | ({"description": about.strip()} if about.strip() else {})
    if isinstance(shape, list):
        items = cast("list[object]", shape)
        inner = json_schema(items[0], f"{path}[0]", notes, depth=depth + 1) if items else {}
        return {"type": "array", "items": inner}
    if isinstance(shape, Mapping):
        fields = cast("Mapping[str, Any]", shape)
        if isinstance(fields.get("type"), str) and (fields.keys() & {"properties", "items", "enum"}):
            return dict(fields)
        properties = {
            name.removesuffix("?"): json_schema(one, f"{path}.{name[:40]}", notes, depth=depth + 1)
            for name, one in fields.items()
        }
        required = [name for name in fields if not name.endswith("?")]
        return {"type": "object", "properties": properties, "required": required}
    return {}


FILE_BYTES_MAX = 8 * 1024 * 1024
KEPT = 20
"""What `history` keeps where a file does not say."""

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_KINDS = ("template", "llm", "guard")
"""Kinds that do here what they do there."""
_OTHER_KINDS = ("knowledge_search", "knowledge_reveal", "rag", "tool", "compute", "transform")
_TAG = re.compile(TAG)
_PROFILE_KEYS = frozenset(
    ("profileId", "name", "description", "enabled", "executionMode", "operationProfileSessionId")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignProfile:
    """A profile of another program, as data for `OperationProfile.parse`."""

    data: dict[str, Any]
    warnings: tuple[str, ...]
    """What was changed, switched off or left out."""


def read_talespinner(source: Source) -> ForeignProfile:
    """Return the profile in a file of TaleSpinner.

    Errors: `InvalidImport` naming every wrong field with its path; `NotFound`.
    """
    value = read_json(source_bytes(source, limit_bytes=FILE_BYTES_MAX), what="the bundle")
    notes = FileProblems()
    profile, blocks = _parts(value, notes)
    notes.check("the bundle")
    data = _Bundle(notes).profile(profile, blocks)
    notes.check("the bundle")
    return ForeignProfile(data=data, warnings=notes.warnings)


def _parts(
    value: object, notes: FileProblems
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any], bool]]]:
    """The profile, and its blocks in order, each with its path and whether the profile has it on."""
    if not isinstance(value, dict):
        raise InvalidImport("this is no profile of TaleSpinner", expected="an object")
    file = cast("dict[str, Any]", value)
    if file.get("type") == "operation_profile_bundle":
        profile = _object(file, "profile", notes)
        found = {
            str(as_dict(one).get("blockId")): (f"blocks[{n}].", as_dict(one))
            for n, one in _listed(file, "blocks")
        }
        return profile, _referenced(profile, found, "blockId", notes)
    if file.get("type") == "talespinner.bundle":
        return _general(file, notes)
    if "operations" in file and ("profileId" in file or "executionMode" in file):
        return file, [("", file, True)]
    raise InvalidImport(
        "this is no profile of TaleSpinner",
        expected="an operation_profile_bundle, a talespinner.bundle with a profile, or an older profile",
        got=", ".join(list(file)[:10])[:200] or "an empty object",
    )


def _general(
    file: dict[str, Any], notes: FileProblems
) -> tuple[dict[str, Any], list[tuple[str, dict[str, Any], bool]]]:
    resources = [(n, as_dict(one)) for n, one in _listed(file, "resources")]
    profiles = [one for _, one in resources if one.get("kind") == "operation_profile"]
    if len(profiles) != 1:
        notes.problem(f"resources: expected one operation_profile, got {len(profiles)}")
        return {}, []
    for _, one in resources:
        if one.get("kind") not in ("operation_profile", "operation_block"):
            notes.warn(
                f"left out: {one_line(str(one.get('kind')))[:60]} {one_line(str(one.get('title')))[:60]}"
            )
    found = {
        str(one.get("resourceId")): (f"resources[{n}].payload.", as_dict(one.get("payload")))
        for n, one in resources
        if one.get("kind") == "operation_block"
    }
    profile = as_dict(profiles[0].get("payload"))
    profile.setdefault("profileId", profiles[0].get("resourceId"))
    return profile, _referenced(profile, found, "resourceId", notes)


def _referenced(
    profile: Mapping[str, Any], found: Mapping[str, tuple[str, dict[str, Any]]], key: str, notes: FileProblems
) -> list[tuple[str, dict[str, Any], bool]]:
    refs = sorted(
        (as_dict(one) for _, one in _listed(profile, "blockRefs")), key=lambda ref: _number(ref.get("order"))
    )
    blocks: list[tuple[str, dict[str, Any], bool]] = []
    for ref in refs:
        path, block = found.get(str(ref.get(key)), ("", None))
        if block is None:
            notes.problem(f"profile.blockRefs: no block is called {str(ref.get(key))[:80]}")
        else:
            blocks.append((path, block, ref.get("enabled") is not False))
    return blocks


_SAMPLERS = {
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "minP": "min_p",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "seed": "seed",
}
"""Samplers of a question to a model, by their name here."""


class _Bundle:
    """One profile in the making."""

    def __init__(self, notes: FileProblems) -> None:
        self._notes = notes
        self._tags: dict[str, str] = {}
        """Tags by operation, for templates that name an artifact by its operation."""
        self._read: set[str] = set()
        """Tags whose values templates show."""
        self._inserted = 0
        """Messages that operations put among those of the conversation."""

    def profile(
        self, given: dict[str, Any], blocks: Sequence[tuple[str, dict[str, Any], bool]]
    ) -> dict[str, Any]:
        fields = ForeignFields(given, path="profile.", notes=self._notes, is_lenient=True)
        if left := sorted(given.keys() - _PROFILE_KEYS - {"blockRefs", "operations", "version"}):
            self._notes.warn(f"left out of the profile: {', '.join(left[:20])[:300]}")
        found = [
            (f"{path}operations[{number}].", as_dict(one), is_on and block.get("enabled") is not False)
            for path, block, is_on in blocks
            for number, one in _listed(block, "operations")
        ]
        if len(found) > OPERATIONS_MAX:
            self._notes.problem(f"operations: expected at most {OPERATIONS_MAX}, got {len(found)}")
            return {}
        for _, one, _ in found:
            self._tags.setdefault(str(one.get("opId")), _tag_of(one))
        self._read = read_tags([one for _, one, _ in found], self._tags)
        name = fields.line("name", chars_max=120) or "Unnamed"
        data: dict[str, Any] = {
            "profile_id": _id(fields.text("profileId"), name),
            "name": name,
            "description": fields.text("description")[:2_000],
            "enabled": fields.flag("enabled", True),
            "execution_mode": _one_of(fields, "executionMode", ("concurrent", "sequential"), "concurrent"),
            "session_id": _id(fields.text("operationProfileSessionId"), "default"),
            "operations": [self._operation(one, path, is_on) for path, one, is_on in found],
        }
        if self._inserted > 1:
            self._notes.warn("depthFromEnd: counts messages of the conversation here, not what others put in")
        if read := sorted(self._read & set(self._tags.values())):
            # They may be shown where a template shows them, and stand in no prompt by themselves.
            if len(read) > INCLUSIONS_MAX:
                self._notes.warn(
                    f"artifacts that stand in prompts by themselves: {', '.join(read[INCLUSIONS_MAX:])}"
                )
            data["inclusions"] = [
                {"source": f"art.{tag}", "when": {"condition": "false"}} for tag in read[:INCLUSIONS_MAX]
            ]
        return data

    def _operation(self, given: dict[str, Any], path: str, is_on: bool) -> dict[str, Any]:
        notes = self._notes
        fields = ForeignFields(given, path=path, notes=notes, is_lenient=True)
        config = ForeignFields(fields.mapping("config"), path=f"{path}config.", notes=notes)
        kind = _one_of(fields, "kind", (*_KINDS, *_OTHER_KINDS), "template")
        name = fields.line("name", chars_max=120)
        operation: dict[str, Any] = {
            "operation_id": fields.text("opId"),
            "name": name,
            "kind": kind,
            "enabled": config.flag("enabled", True) and is_on,
            "required": config.flag("required", False),
            "hooks": list(dict.fromkeys(config.texts("hooks"))) or [HOOKS[0]],
            "triggers": list(dict.fromkeys(config.texts("triggers"))) or ["generate", "regenerate"],
            "order": config.raw("order"),
            "depends_on": list(dict.fromkeys(config.texts("dependsOn"))),
            "run_conditions": [
                _condition(as_dict(one)) for _, one in _listed({"it": config.raw("runConditions")}, "it")
            ],
        }
        activation = config.raw("activation")
        if activation is not None:
            operation["activation"] = _activation(as_dict(activation), f"{path}config.activation.", notes)
        params = ForeignFields(config.mapping("params"), path=f"{path}config.params.", notes=notes)
        effects = self._effects(params, given, f"{path}config.params.")
        inner = params.raw("params")
        own = ForeignFields(as_dict(inner), path=f"{params.path}params.", notes=notes) if inner else params
        if kind in _KINDS:
            operation["params"] = {**self._params(kind, own), "effects": effects}
        else:
            notes.warn(f"{path}kind: {kind} is not followed here; {name or 'the operation'} is switched off")
            said = f"An operation of the kind {kind} in TaleSpinner, which is not followed here."
            operation |= {"kind": "template", "enabled": False, "description": said}
            operation["params"] = {"template": "", "effects": effects}
        return operation

    def _params(self, kind: str, fields: ForeignFields) -> dict[str, Any]:
        """Return the params of a kind, without effects."""
        params: dict[str, Any] = {"strict": fields.flag("strictVariables", False)}
        if (timeout_ms := fields.raw("timeoutMs")) is not None:
            params["timeout_s"] = _number(timeout_ms) / 1_000
        if kind == "template":
            params["template"] = self._text(fields, "template")
            return params
        if kind == "guard":
            contract = [
                as_dict(one).get("key") for _, one in _listed({"it": fields.raw("outputContract")}, "it")
            ]
            params["output_contract"] = contract
            if _one_of(fields, "engine", ("liquid", "aux_llm"), "liquid") == "liquid":
                params["template"] = self._text(fields, "template")
                return params
        return params | self._question(fields)

    def _question(self, fields: ForeignFields) -> dict[str, Any]:
        """Return what a model is asked, and how. Its name and its key are those of another machine."""
        notes = self._notes
        foreign = [
            name for name in ("providerId", "credentialRef", "model", "samplerPresetId") if fields.raw(name)
        ]
        if foreign:
            notes.warn(f"{fields.path}{', '.join(foreign)}: not here; the chat's model is asked")
        params: dict[str, Any] = {"prompt": self._text(fields, "prompt")}
        if system := self._text(fields, "system"):
            params["system"] = system
        samplers = fields.mapping("samplers")
        for theirs, ours in _SAMPLERS.items():
            if (value := samplers.pop(theirs, None)) is not None:
                params[ours] = value
        if (most := samplers.pop("maxTokens", None)) is not None:
            params["max_output_tokens"] = most
        if left := sorted(name for name, value in samplers.items() if value):
            notes.warn(f"{fields.path}samplers: not followed: {', '.join(left)[:200]}")
        attempts = fields.mapping("retry").get("maxAttempts")
        if isinstance(attempts, int) and not isinstance(attempts, bool):
            params["retries"] = min(max(attempts - 1, 0), 3)
        if fields.raw("outputMode") == "json":
            params["output"] = "json"
            shape = fields.raw("jsonSchema")
            if shape is not None:
                params["schema"] = json_schema(shape, f"{fields.path}jsonSchema", notes)
        if fields.raw("jsonParseMode") not in (None, "raw", "markdown_code_block"):
            notes.warn(
                f"{fields.path}jsonParseMode: not followed; JSON is read as it stands, or in a code fence"
            )
        return params

    def _text(self, fields: ForeignFields, name: str) -> str:
        return own_template(fields.text(name), self._tags, f"{fields.path}{name}", self._notes)

    def _effects(self, params: ForeignFields, given: dict[str, Any], path: str) -> list[dict[str, Any]]:
        """Return the effects of an operation: where its text stands, and the artifact that it writes."""
        given_artifact = params.raw("artifact")
        if given_artifact is None:
            given_artifact = _older_artifact(params, _tag_of(given))
        artifact = ForeignFields(as_dict(given_artifact), path=f"{path}artifact.", notes=self._notes)
        tag = artifact.text("tag")
        if not _TAG.match(tag):
            self._notes.problem(f"{artifact.path}tag: expected {TAG}, got {tag[:60]!r}")
            return []
        exposures = [as_dict(one) for _, one in _listed({"it": artifact.raw("exposures")}, "it")]
        effects = [
            effect
            for number, one in enumerate(exposures)
            if (effect := self._exposure(one, f"{artifact.path}exposures[{number}].")) is not None
        ]
        is_shown = tag in self._read
        is_for_people = any(one.get("type") == "ui_inline" for one in exposures)
        history = artifact.mapping("history")
        kept = int(_number(history.get("maxItems", KEPT))) if history.get("enabled", True) else 0
        upsert: dict[str, Any] = {
            "type": "artifact.upsert",
            "tag": tag,
            "title": artifact.line("title", chars_max=120),
            "persistence": _one_of(artifact, "persistence", ("persisted", "run_only"), "run_only"),
            "usage": "prompt+ui" if is_shown else "ui_only" if is_for_people else "internal",
        }
        if upsert["persistence"] == "persisted":
            # The newest value is one of those that are kept there, whichever way it is written.
            upsert["retention"] = {"max_versions": min(max(kept - 1, 0), VERSIONS_MAX)}
        if semantics := artifact.line("semantics", chars_max=64):
            upsert["semantics"] = semantics
        return [*effects, upsert]

    def _exposure(self, one: dict[str, Any], path: str) -> dict[str, Any] | None:
        kind, role = one.get("type"), _ROLES.get(str(one.get("role", "system")))
        if role is None:
            self._notes.problem(
                f"{path}role: expected {', '.join(_ROLES)}, got {str(one.get('role'))[:40]!r}"
            )
            return None
        match kind, one.get("anchor"), one.get("target"):
            case "prompt_part", _, _:
                return {"type": "prompt.system_update", "mode": one.get("mode")}
            case "prompt_message", "after_last_user", _:
                self._inserted += 1
                return {"type": "prompt.insert_after_last_user", "role": role}
            case "prompt_message", "depth_from_end", _:
                self._inserted += 1
                depth = abs(int(_number(one.get("depthFromEnd"))))
                return {"type": "prompt.insert_at_depth", "role": role, "depth_from_end": depth}
            case "turn_rewrite", _, "current_user_main":
                return {"type": "turn.user_variant.upsert_and_select"}
            case "turn_rewrite", _, "assistant_output_main":
                return {"type": "turn.assistant_variant.patch", "mode": one.get("mode", "replace")}
            case "ui_inline", _, _:
                return None  # people see the artifact; where it stands is the page's
            case _:
                self._notes.problem(f"{path}type: {str(kind)[:40]!r} with its place is unknown")
                return None


def _condition(one: dict[str, Any]) -> dict[str, Any]:
    return {"source": one.get("sourceOpId"), "key": one.get("outputKey"), "operator": one.get("operator")}


def _activation(one: dict[str, Any], path: str, notes: FileProblems) -> dict[str, Any]:
    """Either threshold makes an operation due there."""
    turns, tokens = one.get("everyNTurns"), one.get("everyNContextTokens")
    if turns is None and tokens is None:
        notes.problem(f"{path[:-1]}: expected at least one interval")
    due = {"every_n_turns": turns, "every_n_context_tokens": tokens}
    return {**{name: value for name, value in due.items() if value is not None}, "match": "any"}


def _older_artifact(params: ForeignFields, tag: str) -> dict[str, Any]:
    """An output in the form of version 1 as an artifact with exposures."""
    output = as_dict(params.raw("output"))
    written = as_dict(params.raw("writeArtifact") or output.get("writeArtifact"))
    time, rewrite = as_dict(output.get("promptTime")), as_dict(output.get("canonicalization"))
    exposures: list[dict[str, Any]] = []
    if time.get("kind") == "system_update":
        exposures = [{"type": "prompt_part", "target": "system", "mode": time.get("mode", "append")}]
    elif time.get("kind") in ("append_after_last_user", "insert_at_depth"):
        deep = time["kind"] == "insert_at_depth"
        anchor = (
            {"anchor": "depth_from_end", "depthFromEnd": time.get("depthFromEnd", 0)}
            if deep
            else {"anchor": "after_last_user"}
        )
        exposures = [{"type": "prompt_message", "role": time.get("role", "system"), **anchor}]
    elif rewrite:
        target = "assistant_output_main" if rewrite.get("target") == "assistant" else "current_user_main"
        exposures = [{"type": "turn_rewrite", "target": target, "mode": "replace"}]
    return {"tag": tag, "title": "", "exposures": exposures, **written}


def _tag_of(operation: Mapping[str, Any]) -> str:
    """The tag that an operation writes; of one in the older form it is made from the name."""
    params = as_dict(as_dict(operation.get("config")).get("params"))
    said = as_dict(params.get("artifact")).get("tag")
    if isinstance(said, str):
        return said
    older = as_dict(params.get("writeArtifact") or as_dict(params.get("output")).get("writeArtifact")).get(
        "tag"
    )
    if isinstance(older, str):
        return older
    word = re.sub(r"[^a-z0-9]+", "_", str(operation.get("name", "")).lower()).strip("_")[:60]
    return word if _TAG.match(word) else f"op_{word}"[:60].rstrip("_")


def _id(text: str, fallback: str) -> str:
    """A name as an id: letters, digits and `_.-`."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text or fallback).strip("_.-")[:64] or "profile"


def _one_of(fields: ForeignFields, name: str, known: Sequence[str], default: str) -> str:
    value = fields.raw(name)
    if value is None and name != "kind":
        return default
    if value in known:
        return str(value)
    fields.notes.problem(f"{fields.path}{name}: expected one of {', '.join(known)}, got {str(value)[:40]!r}")
    return default


def _object(value: Mapping[str, Any], name: str, notes: FileProblems) -> dict[str, Any]:
    found = value.get(name)
    if not isinstance(found, dict):
        notes.problem(f"{name}: expected an object")
        return {}
    return dict(cast("dict[str, Any]", found))


def _listed(value: Mapping[str, Any], name: str) -> list[tuple[int, object]]:
    found = value.get(name)
    return [*enumerate(cast("list[object]", found))] if isinstance(found, list) else []


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
