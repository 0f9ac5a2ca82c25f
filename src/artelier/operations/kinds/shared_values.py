"""Shared parts of the kinds: templates and their scopes, JSON in texts of models, values of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from artelier.artifacts.content import check_json
from artelier.errors import ArtelierError, InvalidArtifact
from artelier.kernel.prompt.manifest import UNENCODABLE, canonical
from artelier.operations.kinds.contract import OperationCall, OperationFailed, OperationResult, Problem
from artelier.operations.profile.definition import (
    VALUE_BYTES_MAX,
    ArtifactUpsert,
    AssistantBlocks,
    AssistantPatch,
    Params,
    UserVariant,
)

SHOWN_CHARS = 500
"""Of a model's text or a value, in the details of an error."""

_FENCE = "```"
LANGUAGE_CHARS_MAX = 20
"""Of the word behind an opening fence."""


def render_template(template: str, names: Mapping[str, Any], *, strict: bool = True) -> str:
    """The text of a template over these names. Errors: those of `Template`."""
    from artelier.operations.templates.template import Template

    return Template.parse(template, strict=strict).render(names)


def mistakes(templates: Mapping[str, str | None]) -> Iterator[Problem]:
    """Return what is wrong with templates, by path."""
    from artelier.operations.templates.template import Template

    for path, template in templates.items():
        if template is None:
            continue
        try:
            Template.parse(template)
        except ArtelierError as error:
            yield Problem(path=path, code=error.code, message=str(error))


def destination(params: Params) -> tuple[bool, bool]:
    """Return whether the value goes into `(prompts, what people see)`: as it is, or in a text made with
    it.
    """
    in_prompt = in_ui = False
    for effect in params.effects:
        match effect:
            case ArtifactUpsert():
                is_shown = _has_value(effect.value)
                in_prompt |= is_shown and effect.in_prompt
                in_ui |= is_shown and effect.in_ui
            case AssistantBlocks():
                blocks = [block for block in effect.blocks if _has_value(block.text)]
                in_prompt |= any(block.prompt for block in blocks)
                in_ui |= any(block.ui for block in blocks)
            case _:
                is_shown = _has_value(effect.text)
                in_prompt |= is_shown
                # What is said is read by people, and stands in later prompts.
                in_ui |= is_shown and isinstance(effect, UserVariant | AssistantPatch)
    return in_prompt, in_ui


def _has_value(template: str | None) -> bool:
    """Return True if the text of an effect is the operation's value, or made with it."""
    if template is None:
        return True
    try:
        return any(path[0] == "value" for path in paths_in(template))
    except ArtelierError:
        return False  # it does not parse, which is told elsewhere


def paths_in(template: str) -> frozenset[tuple[str, ...]]:
    """Return what a template may read. Errors: `InvalidTemplate`."""
    from artelier.operations.templates.template import Template

    return Template.parse(template).paths()


def visible(call: OperationCall[Any]) -> Mapping[str, Any]:
    """The names for a template whose text is the operation's value: those that may stand where it goes."""
    in_prompt, in_ui = destination(call.params)
    return call.scope.names_for(prompt=in_prompt, ui=in_ui)


def parse_json(text: str) -> Any:
    """The JSON value of a text; a code fence around it is forgiven, but nothing else.

    Errors: `ValueError` that says why it is none.
    """
    try:
        return _decode(text)
    except ValueError:
        fenced = _find_fenced(text)
        if fenced is None:
            raise
        return _decode(fenced)


def _find_fenced(text: str) -> str | None:
    """Return what stands in the only code fence of a text. Cost: O(length)."""
    parts = text.split(_FENCE, 3)
    if len(parts) != 3:
        return None
    language, line_end, content = parts[1].partition("\n")
    return content if line_end and len(language) <= LANGUAGE_CHARS_MAX else None


def _decode(text: str) -> Any:
    if not text.strip():
        raise ValueError("the text is empty")
    try:
        value = msgspec.json.decode(text)
        check_json(value)  # no integers without end, for one: what cannot be stored is no JSON here
    except (*UNENCODABLE, InvalidArtifact) as error:
        raise ValueError(f"not JSON: {str(error)[:200]}") from None
    return value


def make_found(value: Any, *, details: Mapping[str, Any] | None = None) -> OperationResult:
    """A value that was found. Errors: `OperationFailed`: `not_json`, `too_large`."""
    try:
        size = len(canonical(value))
        check_json(value)
    except (*UNENCODABLE, InvalidArtifact) as error:
        raise OperationFailed("not_json", f"the value has no form as JSON: {str(error)[:200]}") from None
    if size > VALUE_BYTES_MAX:
        raise OperationFailed(
            "too_large",
            "the value of an operation is too large",
            expected=f"at most {VALUE_BYTES_MAX:,} bytes",
            got=f"{size:,}",
        )
    return OperationResult(value=value, details=details)


def evaluate_template(template: str, names: Mapping[str, Any], *, strict: bool, as_json: bool) -> Any:
    """Return what a template gives: its text, or the JSON that this text is.

    Errors: those of `Template`; `OperationFailed` with `output_invalid` for what is no JSON.
    """
    text = render_template(template, names, strict=strict)
    if not as_json:
        return text
    try:
        return parse_json(text)
    except ValueError as error:
        raise OperationFailed(
            "output_invalid",
            f"the text of the template is not JSON: {error}",
            expected="one JSON value",
            got=f"{len(text)} characters",
            details={"text": text[:SHOWN_CHARS]},
        ) from None
