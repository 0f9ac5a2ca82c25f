"""A profile, made from what people write, or every mistake in it at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal, cast

import msgspec
from pydantic import Field

from artelier.kernel.tenants.registry import TenantScope, TenantScopes
from artelier.operations.profile.definition import (
    ID,
    INCLUSIONS_MAX,
    OPERATIONS_MAX,
    PARALLEL_MAX,
    TAG,
    ArtifactUpsert,
    Form,
    Operation,
    PromptInclusion,
    Text,
)
from artelier.operations.profile.draft_parser import (
    InvalidProfile,
    Mistakes,
    OperationDraft,
    ProfileMistake,
    draft_operation,
    form_of,
    quote_text,
    read_object,
)
from artelier.operations.profile.rules import check_operations, check_texts, upserts
from artelier.operations.profile.store import (
    KIND,
    SHIPPED,
    SHIPPED_SOURCE,
    desk_of,
    save_content,
    shipped_text,
)

__all__ = [
    "InvalidProfile",
    "ListedProfile",
    "OperationProfile",
    "ProfileMistake",
    "mistakes_in",
    "parse_profile",
]

_SOURCE = re.compile(r"art\." + TAG.removeprefix("^").removesuffix("$"))


class OperationProfile(Form):
    """A container of operations around a main model call. It executes nothing itself.

    Made by `OperationProfile.parse(data)`, which names every mistake, or `OperationProfile.shipped(name)`.
    """

    profile_id: str = Field(pattern=ID)
    name: str = Field(default="", max_length=120)
    description: str = Field(default="", max_length=2_000)
    enabled: bool = True
    """False: a plain main call."""
    execution_mode: Literal["concurrent", "sequential"] = "concurrent"
    session_id: str = Field(default="default", pattern=ID)
    """The session that chats begin with; another one starts empty."""
    version: int = Field(default=1, ge=1)
    """Its author's number. The artifact's version is recorded with each run."""
    operations: tuple[Operation, ...] = Field(default=(), max_length=OPERATIONS_MAX)
    inclusions: tuple[PromptInclusion, ...] = Field(default=(), max_length=INCLUSIONS_MAX)
    system: Text | None = None
    """A template: the system prompt of chats that have none of their own."""
    parallel_max: int = Field(default=8, ge=1, le=PARALLEL_MAX)
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    """Of a whole run."""

    @classmethod
    def parse(cls, data: object) -> OperationProfile:
        """A profile from JSON data (an object, or its text). Errors: `InvalidProfile` with all mistakes."""
        return parse_profile(data)

    @classmethod
    def shipped(cls, name: str) -> OperationProfile:
        """A profile that comes with Artelier. Errors: `NotFound` that names them."""
        return parse_profile(shipped_text(name))

    async def save(
        self, kernel: TenantScope | TenantScopes, *, tenant: str | None = None, by: str = "operator"
    ) -> str:
        """Store it as an artifact in the name of `by`; its ref `id@version`, a new one only if it changed.

        `kernel`: a tenant's handle, or a kernel and the name of a tenant.
        Errors: `InvalidProfile` with all mistakes, and those of writing an artifact.
        """
        content = self.data()
        artifacts = desk_of(kernel, tenant=tenant).as_principal(by).artifacts
        parse_profile(content)  # one that was made by hand may have any mistake
        return await save_content(artifacts, self.profile_id, KIND, content)

    def data(self) -> dict[str, Any]:
        """The profile as JSON data; `parse` makes an equal one of it."""
        return self.model_dump(mode="json", exclude_defaults=True, serialize_as_any=True)

    def operation(self, operation_id: str) -> Operation:
        return next(one for one in self.operations if one.operation_id == operation_id)

    def artifacts(self) -> dict[str, ArtifactUpsert]:
        """Return what its operations may write, by tag."""
        return {one.artifact.tag: one.artifact for one in self.operations if one.artifact}


class ListedProfile(msgspec.Struct, frozen=True, kw_only=True, rename={"source": "from"}):
    """A profile of a list."""

    profile_id: str
    source: str
    """`shipped`, or the ref `id@version` of a stored one."""
    name: str
    version: int
    """As its author counts."""
    enabled: bool
    operations: int
    writes: list[str]
    """Tags of the artifacts that it may write."""

    @classmethod
    def of(cls, profile: OperationProfile, source: str) -> ListedProfile:
        return cls(
            profile_id=profile.profile_id,
            source=source,
            name=profile.name,
            version=profile.version,
            enabled=profile.enabled,
            operations=len(profile.operations),
            writes=sorted(profile.artifacts()),
        )

    @classmethod
    def all_shipped(cls) -> list[ListedProfile]:
        """The profiles that come with Artelier."""
        return [*_shipped_lines()]


@cache
def _shipped_lines() -> tuple[ListedProfile, ...]:
    return tuple(ListedProfile.of(OperationProfile.shipped(name), SHIPPED_SOURCE) for name in SHIPPED)


def parse_profile(data: object) -> OperationProfile:
    """A profile from JSON data: an object, or its text.

    An operation may have how it is used in `config`, apart from what it is; the profile has both in one.
    Errors: `InvalidProfile`, whose `errors` are all mistakes; nothing else, whatever is handed over.
    """
    profile, mistakes = _read(data)
    if profile is None:
        raise InvalidProfile(mistakes)
    return profile


def mistakes_in(data: object) -> tuple[ProfileMistake, ...]:
    """All mistakes of a profile, none if it is valid."""
    return tuple(_read(data)[1])


def _read(data: object) -> tuple[OperationProfile | None, list[ProfileMistake]]:
    mistakes = Mistakes()
    given = read_object(data, mistakes)
    if given is None:
        return None, mistakes.in_order()
    drafts = [
        draft
        for index, item in enumerate(_list(given, "operations", OPERATIONS_MAX, mistakes))
        if (draft := draft_operation(item, ("operations", index), mistakes)) is not None
    ]
    check_operations(drafts, mistakes)
    inclusions = _inclusions(given, drafts, mistakes)
    profile = _container(given, mistakes)
    check_texts(drafts, inclusions, given.get("system"), mistakes)
    if mistakes or profile is None:
        return None, mistakes.in_order()
    operations = tuple(draft.operation for draft in drafts)
    parts = {"operations": operations, "inclusions": tuple(one for _, one in inclusions)}
    return profile.model_copy(update=parts), []


def _list(given: dict[str, Any], name: str, most: int, mistakes: Mistakes) -> list[object]:
    items: object = given.get(name, [])
    if not isinstance(items, list):
        mistakes.add((name,), "not_a_list", f"{name} are a list, got {quote_text(items)}")
        return []
    found = cast("list[object]", items)
    if len(found) > most:
        mistakes.add((name,), "too_many", f"a profile has at most {most} {name}, got {len(found)}")
    return found[:most]


def _container(given: dict[str, Any], mistakes: Mistakes) -> OperationProfile | None:
    """The profile without its parts."""
    bare: dict[str, Any] = {**given, "operations": [], "inclusions": []}
    for name in ("profile_id", "session_id"):
        id_: object = given.get(name)
        if isinstance(id_, str) and not id_.strip():
            mistakes.add((name,), "empty_id", f"{name} is empty")
            bare[name] = "none"
    return form_of(OperationProfile, bare, (), mistakes)


def _inclusions(
    given: dict[str, Any], drafts: Sequence[OperationDraft], mistakes: Mistakes
) -> list[tuple[int, PromptInclusion]]:
    """The rules that are of the form, each checked against what the operations write."""
    written = {effect.tag: effect for draft in drafts for _, effect in upserts(draft)}
    found: list[tuple[int, PromptInclusion]] = []
    for index, item in enumerate(_list(given, "inclusions", INCLUSIONS_MAX, mistakes)):
        at = ("inclusions", index)
        if not isinstance(item, dict):
            mistakes.add(at, "not_an_object", f"an inclusion is a JSON object, got {quote_text(item)}")
            continue
        data = cast("dict[str, Any]", item)
        source: object = data.get("source")
        if isinstance(source, str):
            effect = written.get(source.removeprefix("art."))
            if not _SOURCE.fullmatch(source):
                said = f"a source is art.<tag>, got {quote_text(source)}"
                mistakes.add((*at, "source"), "unknown_source", said)
            elif effect is not None and not effect.in_prompt:
                said = f"{source} is {effect.usage}: no prompt may show it"
                mistakes.add((*at, "source"), "source_not_for_prompt", said)
        inclusion = form_of(PromptInclusion, data, at, mistakes)
        if inclusion is not None:
            found.append((index, inclusion))
    return found
