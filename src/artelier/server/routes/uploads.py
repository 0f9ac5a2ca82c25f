"""`POST /uploads`: files become artifacts of kind `document` or `dataset`, and nothing else.

They are held in memory until the store has them: no file is written, whatever a name says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from hashlib import sha256
from io import BytesIO
from typing import Any, NamedTuple

import msgspec
from fastapi import Request
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from artelier.app import TenantKernel
from artelier.artifacts import Artifact, Artifacts
from artelier.artifacts.content import CONTENT_BYTES_MAX, Content, LeftOut, Media, check_json, encode_content
from artelier.artifacts.json_items import count_items
from artelier.errors import InvalidArtifact, InvalidRequest, NotFound, TooManyAtOnce, VersionConflict
from artelier.log import check_subject
from artelier.server.deps import Actor, Desk, artifacts_of
from artelier.server.pii import disarmer, escape_placeholders, scrub_content
from artelier.server.routes import resource
from artelier.server.security.held_bodies import reserve_content
from artelier.server.wire.artifacts import Uploaded, Uploads
from artelier.threads import read_beside_loop

router = resource("uploads")

FILES_MAX = 20
FIELDS_MAX = 4
NAME_CHARS_MAX = 80
"""Of the last piece of the artifact's id."""
KINDS = ("document", "dataset")
WIDE = 4
"""Bytes that each character of a text takes in memory, if one of them is an emoji."""
JSON_BYTES_MAX = 4 * 1024 * 1024
JSON_ITEMS_MAX = 100_000
"""Of a file that is stored as JSON data."""
DATASETS = frozenset((".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", ".sqlite", ".db"))
"""Files of rows."""

_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "required": ["file"],
                    "properties": {
                        "file": {
                            "type": "array",
                            "items": {"type": "string", "format": "binary"},
                            "description": f"1 to {FILES_MAX} files.",
                        },
                        "kind": {
                            "type": "string",
                            "enum": list(KINDS),
                            "description": "By default what the file's name says.",
                        },
                        "subject": {
                            "type": "string",
                            "description": "Whom they are about: they are erased with that.",
                        },
                    },
                }
            }
        },
    }
}


class _InMemory(MultiPartParser):
    """Never spools to a disk: the guard has bounded the body before."""

    spool_max_size = 2 * CONTENT_BYTES_MAX


class File(NamedTuple):
    """A file as it came."""

    name: str
    content: bytes
    type: str


@router.post("", status_code=201, operation_id="uploads_create", openapi_extra=_BODY)
async def create(desk: Desk, actor: Actor, request: Request) -> Uploads:
    """Store files as artifacts `uploads/<name>`; the same file again is the artifact that is there."""
    with _place(request, desk):
        return await _store_files(desk, actor, request)


@contextmanager
def _place(request: Request, desk: TenantKernel) -> Generator[None]:
    """Count an upload while it is held in memory. Errors: `TooManyAtOnce`."""
    counts: Counter[str] = request.app.state.uploads
    most = desk.services.quotas.of(desk.id).uploads_max
    if counts[desk.id] >= most:
        raise TooManyAtOnce(
            "too many uploads of this tenant at once",
            expected=f"at most {most}",
            got=counts[desk.id] + 1,
            hint="Send it again when one of them has ended.",
        )
    counts[desk.id] += 1
    try:
        yield
    finally:
        counts[desk.id] -= 1


async def _store_files(desk: TenantKernel, actor: str, request: Request) -> Uploads:
    form = await _form(request)
    try:
        kind, subject = _kind(form), _subject(form)
        files = [await _file(one) for one in form.getlist("file")]
    finally:
        await form.close()
    if not files:
        raise InvalidRequest("no file", expected=f"1 to {FILES_MAX} parts called file")
    await desk.services.quotas.check_stored(
        desk.services.store, desk.id, more=sum(len(one.content) for one in files)
    )
    wide_bytes = sum(len(one.content) for one in files if not one.content.isascii())
    await reserve_content(WIDE * wide_bytes)
    items = [await _keep(desk, actor, one, kind, subject) for one in files]
    return Uploads(items=items)


async def _form(request: Request) -> FormData:
    """Errors: `InvalidRequest`."""
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        raise InvalidRequest("an upload", expected="multipart/form-data")
    parser = _InMemory(request.headers, request.stream(), max_files=FILES_MAX, max_fields=FIELDS_MAX)
    try:
        return await parser.parse()
    except MultiPartException as error:
        raise InvalidRequest(
            "this upload cannot be read", expected="multipart/form-data", got=error.message[:200]
        ) from None


def _kind(form: FormData) -> str:
    kind = form.get("kind", "")
    if not isinstance(kind, str) or kind not in ("", *KINDS):
        raise InvalidRequest("kind of an upload", expected=" or ".join(KINDS), got=str(kind)[:60])
    return kind


def _subject(form: FormData) -> str:
    subject = form.get("subject", "")
    return check_subject(subject) if subject else ""


async def _file(part: object) -> File:
    if not isinstance(part, UploadFile):
        raise InvalidRequest("a part called file is no file", expected="one with a filename")
    held = part.file
    spooled = getattr(held, "_file", held)  # in memory, see above: a copy of 64 MiB would hold up the loop
    content = spooled.getvalue() if isinstance(spooled, BytesIO) else await part.read()
    return File(part.filename or "", content, part.content_type or "")


async def _keep(desk: TenantKernel, actor: str, file: File, kind: str, subject: str) -> Uploaded:
    """The artifact that holds a file. One name never hides another file: then a digest is added."""
    artifacts = artifacts_of(desk, actor)
    if subject:
        artifacts = artifacts.about(subject)
    size_bytes = len(file.content)
    digest = await read_beside_loop(size_bytes, lambda: sha256(file.content).hexdigest()[:8])
    name = upload_name(desk, file, digest)
    chosen = kind or ("dataset" if _suffix(name) in DATASETS else "document")
    disarm = disarmer(desk)
    content, media, stored = await read_beside_loop(size_bytes, lambda: _read(disarm, file, name))
    kept = await scrub_content(desk, stored)
    found = False
    artifact = None
    for id in (f"uploads/{name}", f"uploads/{_with_digest(name, digest)}"):
        before = await _standing(artifacts, id)
        # Encoded: to Python, 1 and true are the same.
        if before is not None and await _is_same(artifacts, before, media, len(stored), kept):
            artifact, found = before, True
            break
        if before is None:
            with suppress(VersionConflict):  # somebody was faster with another file of that name
                artifact = await artifacts.write(
                    id,
                    kind=chosen,
                    content=content,
                    expected_version=0,
                    metadata={"name": escape_placeholders(desk, file.name[:200]), "type": file.type[:100]},
                )
                break
    if artifact is None:
        raise VersionConflict(f"an artifact uploads/{name} is there", hint="Rename the file.")
    return Uploaded.model_validate(
        {
            "id": artifact.id,
            "version": artifact.version,
            "kind": artifact.kind,
            "media": media,
            "size_bytes": size_bytes,
            "name": name,
            "is_new": not found,
        }
    )


def _read(disarm: Callable[[Any], Any], file: File, name: str) -> tuple[Content, Media, bytes]:
    content = disarm(content_of(file, name))
    return content, *encode_content(content)


async def _is_same(
    artifacts: Artifacts, before: Artifact, media: Media, size_bytes: int, kept: bytes
) -> bool:
    """Return whether an artifact has some content, stored as `kept`. Only what is as large is read."""
    if before.content != LeftOut(media=media, size_bytes=size_bytes):
        return False
    try:
        return (await artifacts.encoded(f"{before.id}@{before.version}"))[1] == kept
    except NotFound:
        return False  # it was erased


async def _standing(artifacts: Artifacts, id: str) -> Artifact | None:
    """Return an artifact without its content, if it is there."""
    with suppress(NotFound):
        return await artifacts.read(id, price_max=0, bytes_max=-1)  # not even that of an empty file
    return None


def upload_name(desk: TenantKernel, file: File, digest: str) -> str:
    """The last piece of the id. Ids are no secret: a name that tells of a person is left out."""
    name = slug(file.name)
    personal = desk.services.personal
    if personal is None or all(personal(desk.id).text(one) == one for one in (file.name, name)):
        return name
    return f"file-{digest}{_suffix(name)}"


def slug(name: str) -> str:
    """A file's name as the last piece of an id: no folder, no path, no sign that means anything."""
    last = re.split(r"[/\\]", name)[-1]
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", last).strip("-.")
    stem, suffix = plain[: -len(_suffix(plain)) or None], _suffix(plain)
    return f"{stem[: NAME_CHARS_MAX - len(suffix)].rstrip('-.') or 'file'}{suffix}"


def _suffix(name: str) -> str:
    """`.csv`; empty for none, and for what is no suffix any more."""
    found = re.search(r"\.[A-Za-z0-9]{1,10}$", name)
    return found.group().lower() if found and found.start() > 0 else ""


def _with_digest(name: str, digest: str) -> str:
    suffix = _suffix(name)
    stem = name[: -len(suffix)] if suffix else name
    return f"{stem}-{digest}{suffix}"


def content_of(file: File, name: str) -> Content:
    """JSON for a `.json` that is some, text for what is UTF-8, else the bytes. Errors: `InvalidArtifact`.

    JSON beyond `JSON_BYTES_MAX` or `JSON_ITEMS_MAX` stays the text that it is: objects take thirty times its
    memory.
    """
    if len(file.content) > CONTENT_BYTES_MAX:
        raise InvalidArtifact(
            f"{name} is too large", expected=f"at most {CONTENT_BYTES_MAX} bytes", got=len(file.content)
        )
    try:
        text = file.content.decode()
    except UnicodeDecodeError:
        return file.content
    if "\0" in text:
        return file.content
    if name.endswith(".json") and _is_moderate(file.content):
        with suppress(msgspec.DecodeError, RecursionError, InvalidArtifact):
            data: Any = msgspec.json.decode(text)
            check_json(data)
            return text if isinstance(data, str) else data
    return text


def _is_moderate(content: bytes) -> bool:
    """Return True if what may be JSON makes no more items than a request may cost."""
    return len(content) <= JSON_BYTES_MAX and count_items(content, most=JSON_ITEMS_MAX) <= JSON_ITEMS_MAX
