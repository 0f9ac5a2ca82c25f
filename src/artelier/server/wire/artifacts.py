"""Wire models of artifacts: versions, access policies in words, and uploads."""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Mapping, Sequence
from os.path import basename
from typing import Annotated, Any, Literal

from pydantic import Field

from artelier.artifacts import Access, AccessPrices, Artifact
from artelier.artifacts.content import Content, JsonDifference, LeftOut, encode_content, media_of
from artelier.artifacts.invocation_store import InvocationOutcome
from artelier.artifacts.queries import Lineage, Summary, VersionInfo
from artelier.errors import InvalidRequest
from artelier.ids import OPERATOR
from artelier.server.wire.base import Id, Page, RequestBody, ResponseModel, describe_record

_OTHERS = {
    "private": "Nobody else may read, invoke or change it.",
    "owner_writes": "Everybody may read and invoke it; only the owner changes it.",
    "public": "Everybody may read, invoke and change it.",
}

_VERBS = {
    "read": "read it",
    "write": "change it",
    "invoke": "invoke it",
    "delete": "delete it",
    "transfer": "give it away",
}

_PRICED = (("read", "Reading it"), ("invoke", "Invoking it"), ("inclusion", "A prompt with it"))

NAMED_MAX = 20


def in_words(owner: str, access: Access | None, prices: AccessPrices) -> list[str]:
    """A sentence for each rule, the owner's first."""
    return [f"{owner} owns it, and decides who else may use it.", *_policy(access), *_prices(prices)]


def _policy(access: Access | None) -> list[str]:
    if access is None:
        return ["Its access policy cannot be read, so nobody else may do anything with it."]
    if access.policy in _OTHERS:
        return [_OTHERS[access.policy]]
    if access.policy == "contract":
        return [f"The contract {access.contract} decides each access, the owner's too."]
    if access.policy != "allow":
        return [f"Its access policy {access.policy} is unknown here, so nobody may use it."]
    said = [
        f"{_who(access.allow[right])} may {verb}."
        for right, verb in _VERBS.items()
        if access.allow.get(right)
    ]
    return said or ["Its lists name nobody: only the owner may use it."]


def _who(principals: Sequence[str]) -> str:
    if "*" in principals:
        return "Everybody"
    named = [_name_principal(one) for one in principals[:NAMED_MAX]]
    more = len(principals) - NAMED_MAX
    if more > 0:
        named.append(f"{more} more")
    return named[0] if len(named) == 1 else f"{', '.join(named[:-1])} and {named[-1]}"


def _name_principal(principal: str) -> str:
    kind, _, rest = principal.partition(":")
    return f"every member of {rest}" if kind == "membrane" and rest else principal


def _prices(prices: AccessPrices) -> list[str]:
    return [
        f"{what} costs others {amount} scrip." for name, what in _PRICED if (amount := getattr(prices, name))
    ]


INLINE_BYTES_MAX = 2 * 1024 * 1024
"""Content that an answer holds in place; more is downloaded (a guess: what a page can show)."""

Media = Literal["text", "json", "bytes"]
Scrip = Annotated[int, Field(ge=0, le=10**12)]


class AccessPolicy(ResponseModel):
    """The access policy of an artifact."""

    policy: str
    """`private`, `owner_writes`, `public`, `allow` or `contract`; any other denies."""
    allow: dict[str, list[str]] = {}
    """Of `allow`: principals by right; `*` is anyone."""
    contract: str | None = None
    """Of `contract`: id of the artifact that decides."""


class PriceList(ResponseModel):
    """The owner's prices for others, in whole scrip."""

    read: int = 0
    invoke: int = 0
    inclusion: int = 0
    """Per prompt that contains it."""


@describe_record(Summary)
class ArtifactLine(ResponseModel):
    """An artifact without its content."""

    access: AccessPolicy | None
    """Null if what is stored cannot be read; then nobody but the owner can mend it."""
    prices: PriceList


class ArtifactsPage(Page[ArtifactLine]):
    """Artifacts, and the kinds there are."""

    kinds: list[str]


class Origin(ResponseModel):
    """The origin of a version."""

    derived_from: list[str] = []
    """Refs; they may dangle."""
    run_id: str | None = None
    step: str | None = None


class ArtifactShown(ResponseModel):
    """One version of an artifact with its content."""

    id: str
    kind: str
    version: int
    creator: str
    owner: str
    access: AccessPolicy | None
    prices: PriceList
    media: Media
    content: Any
    """Text, JSON, or bytes in base64; null if it is too large to be shown in place."""
    is_cut: bool
    """Whether `content` was left out: `/content` has it."""
    size_bytes: int
    interface: Any = None
    """Its tools, MCP style; null if it has none."""
    provenance: Origin
    metadata: dict[str, Any] = {}
    created_us: int
    written_us: int


class ArtifactWrite(RequestBody):
    """A new artifact, or a new version of one."""

    id: Id
    kind: str | None = Field(default=None, max_length=64)
    """Needed for a new one; a list of artifacts names those there are."""
    content: Any
    """Text or JSON; bytes in base64 with `media`."""
    media: Media | None = None
    """By default `text` for text and `json` for all else."""
    access: str | dict[str, Any] | None = None
    """A policy's name, `{"allow": {right: [principal]}}` or `{"contract": id}`."""
    prices: dict[str, int] | None = None
    """`{read, invoke, inclusion}` in scrip."""
    metadata: dict[str, Any] | None = None
    interface: dict[str, Any] | None = None
    derived_from: list[Id] = Field(default=[], max_length=256)
    """Refs of what it came from."""
    expected_version: int = Field(default=0, ge=0, le=2**53)
    """The newest version as the writer knows it; 0: there must be none."""
    subject: str = Field(default="", max_length=200)
    """Whom it is about: it is erased with that."""


class ArtifactChange(RequestBody):
    """The changes for a new version; fields that are left out stay."""

    expected_version: int = Field(ge=1, le=2**53)
    """The newest version as the writer knows it; another one is a conflict."""
    content: Any = None
    """Text or JSON; bytes in base64 with `media`. Given as null it is the JSON null."""
    media: Media | None = None
    access: str | dict[str, Any] | None = None
    prices: dict[str, int] | None = None
    metadata: dict[str, Any] | None = None


class Paid(RequestBody):
    """A reading that may cost something."""

    version: int | None = Field(default=None, ge=1, le=2**53)
    """The newest unless given."""
    price_max: Scrip = 0
    """Scrip that the reader agrees to pay."""


@describe_record(VersionInfo)
class ArtifactVersion(ResponseModel):
    """One entry of a history."""

    media: Media


@describe_record(JsonDifference)
class JsonChange(ResponseModel):
    """One difference of JSON content."""

    before: Any = None
    after: Any = None


class ArtifactDiff(ResponseModel):
    """The difference between two versions."""

    a: int
    b: int
    media: Media
    text: str
    """A unified diff for text, a line per change for JSON, a sentence for bytes; empty if equal."""
    changes: list[JsonChange]


@describe_record(Lineage)
class ArtifactLineage(ResponseModel):
    """One step in both directions."""


class Allowed(ResponseModel):
    """The permission of people for one action on an artifact."""

    action: str
    allowed: bool
    reason: str
    price: int
    """Scrip."""


class ArtifactAccess(ResponseModel):
    """The access rules of an artifact, as data and in words."""

    id: str
    owner: str
    creator: str
    access: AccessPolicy | None
    prices: PriceList
    words: list[str]
    """A sentence for each rule."""
    people: list[Allowed]
    """What people of this tenant may do, who act as `operator`."""


class Adoption(RequestBody):
    """A fork's artifact that is brought home."""

    version: int | None = Field(default=None, ge=1, le=2**53)
    """The newest unless given."""
    to: Id | None = None
    """Where to: else what the fork's origin called it."""
    principal: Id = OPERATOR
    """In whose name it is written, such as the owner of what it replaces; only admins may name another."""


class Invocation(RequestBody):
    """A call of an executable artifact."""

    args: dict[str, Any] = {}
    """By name."""
    price_max: Scrip = 0
    """Scrip that the caller agrees to pay."""


@describe_record(InvocationOutcome, without=("wall",))
class InvocationResult(ResponseModel):
    """The result of a call."""


def content_of(content: Content, media: Media | None) -> Content:
    """Content as the store takes it. Errors: `InvalidRequest`."""
    if media == "bytes":
        if not isinstance(content, str):
            raise InvalidRequest("bytes", expected="base64 text", got=type(content).__name__)
        try:
            return b64decode(content, validate=True)
        except (Error, ValueError):
            raise InvalidRequest("bytes", expected="base64 text", got=content[:40]) from None
    if media is not None and media_of(content) != media:
        raise InvalidRequest("content of another media", expected=media, got=media_of(content))
    return content


def artifact_shown(artifact: Artifact) -> ArtifactShown:
    """An artifact with as much of its content as an answer holds."""
    content: Any = artifact.content
    if isinstance(content, LeftOut):
        media, size_bytes = content.media, content.size_bytes
    else:
        media, stored = encode_content(content)
        size_bytes = len(stored)
        content = b64encode(stored).decode() if media == "bytes" else content
    is_cut = size_bytes > INLINE_BYTES_MAX
    facts = {name: getattr(artifact, name) for name in _PLAIN}
    if artifact.kind == "task":
        facts["metadata"] = without_path(artifact.metadata)
    return ArtifactShown.model_validate(
        {
            **facts,
            "media": media,
            "size_bytes": size_bytes,
            "is_cut": is_cut,
            "content": None if is_cut else content,
        }
    )


def without_path(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is noted of a task, with the name of its workspace in place of the path on this machine."""
    found = dict(metadata)
    if isinstance(place := found.get("workspace"), str):
        found["workspace"] = basename(place)
    return found


_PLAIN = (
    "id",
    "kind",
    "version",
    "creator",
    "owner",
    "access",
    "prices",
    "interface",
    "provenance",
    "metadata",
    "created_us",
    "written_us",
)


class Uploaded(ResponseModel):
    """One file, stored as an artifact."""

    id: str
    version: int
    kind: Literal["document", "dataset"]
    media: Literal["text", "json", "bytes"]
    size_bytes: int
    """Of the file as it came."""
    name: str
    """The name that it came with, made harmless."""
    is_new: bool
    """False if the same file was there already."""


class Uploads(ResponseModel):
    """All files of one request, in their order."""

    items: list[Uploaded]
