"""One call of a model for a program: a detached step of a run, held, billed and recorded like any other.

Without `Artelier-Run` a call is a run of its own. With it, it is a step of that run, and its key is the hash
of the body and how often this session of the program has asked the same: when it runs again, what was
answered is returned, and nothing is called.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from secrets import token_hex
from typing import Any, cast

import msgspec

from artelier.app import Kernel, TenantKernel, read_stream
from artelier.artifacts.media.inspection import KeptMedium, decode_base64, inspect_medium, keep_medium
from artelier.errors import Conflict, InvalidRequest, NotFound, OutputInvalid
from artelier.ids import OPERATOR, check_run_id
from artelier.kernel import ModelResult
from artelier.kernel.queries.steps import step_of
from artelier.kernel.tenants.registry import TenantScope
from artelier.log.blobs import prepared_blob
from artelier.ports.model import ChatMessage, ModelReply, Part
from artelier.server.openai_api.replies import ProgramAnswer, answer_of
from artelier.server.openai_api.requests import INLINE, AskedCall, InlineMedium, refuse, refuse_extra
from artelier.threads import read_beside_loop, run_in_content_thread

RUN = "artelier-run"
SESSION = "artelier-session"
RETRY = "x-stainless-retry-count"
"""How OpenAI's clients say that they ask the same call again."""
SESSION_CHARS_MAX = 200
SESSIONS_MAX = 1_000
"""Sessions of programs whose counts are kept; the oldest is forgotten."""
ATTEMPTS_MAX = 100
"""Keys that one body may use up by failures."""

UNHASHED = frozenset(("stream", "stream_options"))
"""Members of a body that change how an answer comes, and not what it is."""
ESCAPED_BYTES_MAX = 1024 * 1024
"""Of a body whose signs beyond ASCII are escaped before it is hashed."""
PIECES_MAX = 10_000
"""AnswerPieces that wait for a client; a slower one is given them joined at the end."""


@dataclass(slots=True)
class SessionCounts:
    """Counts of equal bodies by session of a program; `app.state.openai_sessions`."""

    _sessions: OrderedDict[tuple[str, str, str], Counter[str]] = field(
        default_factory=OrderedDict[tuple[str, str, str], Counter[str]]
    )

    def ordinal(self, tenant: str, run_id: str, session: str, digest: str, *, is_retry: bool) -> int:
        """Return the number, from 0, of this call among equal ones of its session; without a session 0."""
        if not session:
            return 0
        name = (tenant, run_id, session)
        counts = self._sessions.setdefault(name, Counter())
        self._sessions.move_to_end(name)
        if len(self._sessions) > SESSIONS_MAX:
            self._sessions.popitem(last=False)
        if not is_retry or not counts[digest]:
            counts[digest] += 1
        return counts[digest] - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPlace:
    """The step that a call is."""

    run_id: str
    key: str
    is_kept: bool
    """Whether the program named the run: then an answer is wanted also when nobody waits for it."""


async def place_of(
    desk: TenantKernel, counts: SessionCounts, headers: Mapping[str, str], body: bytes
) -> CallPlace:
    """Return where a call is recorded. Errors: `InvalidRequest` for a name that no run can have."""
    run_id, session = headers.get(RUN, "").strip(), headers.get(SESSION, "").strip()
    if not run_id:
        return CallPlace(run_id=f"openai-{token_hex(8)}", key="call", is_kept=False)
    check_run_id(run_id)
    if len(session) > SESSION_CHARS_MAX:
        raise InvalidRequest(
            "Artelier-Session is too long", expected=f"at most {SESSION_CHARS_MAX} characters"
        )
    digest = await _digest(desk, body)
    is_retry = headers.get(RETRY, "0") not in ("", "0")
    number = counts.ordinal(desk.id, run_id, session, digest, is_retry=is_retry)
    return CallPlace(
        run_id=run_id, key=await _open_key(desk, run_id, f"call-{digest}-{number}"), is_kept=True
    )


def _sorted_members(body: bytes) -> bytes:
    """Return what a body asks in one spelling, whatever the order of its members.

    Recorded calls are found by the hash of it, so it stays what it was in earlier versions, which escaped all
    beyond ASCII. Only in a body above `ESCAPED_BYTES_MAX` that stands as it is: escaped, 31 MB of `é` are 93
    MB, and take three times as long.
    """
    asked = {name: value for name, value in json.loads(body).items() if name not in UNHASHED}
    is_escaped = len(body) <= ESCAPED_BYTES_MAX
    said = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=is_escaped)
    return said.encode(errors="surrogatepass")


async def _digest(desk: TenantKernel, body: bytes) -> str:
    """Return a keyed hash of what a body asks: nobody who guesses a text finds it by its step."""
    said = await read_beside_loop(len(body), _sorted_members, body)
    ref, _ = await prepared_blob(desk.id, (await desk.state()).key, said)
    return sha256(str(ref).encode()).hexdigest()[:32]


async def _open_key(desk: TenantKernel, run_id: str, base: str) -> str:
    """Return the first key under which no call has failed: a failure is asked again, an answer is not."""
    for number in range(ATTEMPTS_MAX):
        key = f"{base}-again{number}" if number else base
        step = await step_of(desk.services.store, desk.id, run_id, key)
        if step is None or step.status not in ("failed", "cancelled", "timed_out"):
            return key
    raise InvalidRequest(
        f"this call has failed {ATTEMPTS_MAX} times in run {run_id}", hint="Name another run in Artelier-Run."
    )


async def call_model(kernel: Kernel, desk: TenantKernel, asked: AskedCall, place: CallPlace) -> ProgramAnswer:
    """Return the answer of a model. Errors: those of `Run.step_model`."""
    try:
        result = await _work(kernel, desk, asked, place, on_delta=None)
    except OutputInvalid as error:
        return _misfitting(desk, asked, place, error)
    return _answer(desk, asked, place, result)


async def stream_model(
    kernel: Kernel, desk: TenantKernel, asked: AskedCall, place: CallPlace
) -> AsyncGenerator[str | ProgramAnswer]:
    """Yield pieces of text as they come, and the answer last.

    If nobody reads on, the call is cut off and its run cancelled; one of a run that the program named goes
    on, and its answer is there when the program asks again. Errors: those of `Run.step_model`.
    """
    pieces: asyncio.Queue[str | None] = asyncio.Queue()

    def keep(text: str) -> None:
        if pieces.qsize() < PIECES_MAX:
            pieces.put_nowait(text)

    work = asyncio.ensure_future(_work(kernel, desk, asked, place, on_delta=keep))
    work.add_done_callback(lambda _: pieces.put_nowait(None))
    try:
        while (piece := await pieces.get()) is not None:
            yield piece
        try:
            yield _answer(desk, asked, place, await work)
        except OutputInvalid as error:
            yield _misfitting(desk, asked, place, error)
    finally:
        if not work.done():
            if place.is_kept:
                _LEFT.add(work)
                work.add_done_callback(_forget)
            else:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                with suppress(Conflict, NotFound):  # it has ended meanwhile, or never began
                    await desk.cancel(place.run_id, note="its client went away", by=OPERATOR)


async def _work(
    kernel: Kernel,
    desk: TenantKernel,
    asked: AskedCall,
    place: CallPlace,
    *,
    on_delta: Callable[[str], None] | None,
) -> ModelResult:
    """Take the step, in a run of its own or in one that stays open for the program's next call."""
    if desk.services.personal is not None:
        refuse_extra(asked, "would be sent as it stands, and personal data is replaced here")
    options = _options(asked, place)
    options["messages"], options["media"] = await _with_media(desk, asked.messages)
    if place.is_kept:
        where = {"run_id": place.run_id, "tenant": desk.id}
        if on_delta is None:
            return await kernel.step_model(**where, **options)
        return await kernel.stream_model(**where, on_delta=on_delta, **options)
    async with desk.run(place.run_id) as run:
        if on_delta is None:
            return await run.step_model(**options)
        return await read_stream(run.stream_model(**options), on_delta)


async def _with_media(
    desk: TenantKernel, messages: Sequence[ChatMessage]
) -> tuple[tuple[ChatMessage, ...], tuple[KeptMedium, ...]]:
    """Return messages that name their media, and the media, which are stored with the request.

    Errors: `InvalidRequest` that names the piece.
    """
    kept: list[KeptMedium] = []
    found: list[ChatMessage] = []
    for message in messages:
        if isinstance(message.content, str) or all(one.type != INLINE for one in message.content):
            found.append(message)
            continue
        pieces: list[Part] = []
        for piece in message.content:
            if piece.type == INLINE:
                kept.append(await keep_inline(desk, cast(InlineMedium, piece.data)))
                piece = kept[-1].medium.part
            pieces.append(piece)
        found.append(msgspec.structs.replace(message, content=tuple(pieces)))
    return tuple(found), tuple(kept)


async def keep_inline(desk: TenantKernel, inline: InlineMedium) -> KeptMedium:
    """Return a medium of a request with its name. Errors: `InvalidRequest` that names the piece."""
    content = await inline_bytes(inline)
    try:
        facts = await inspect_medium(content, media_type=inline.media_type)
    except InvalidRequest as error:
        raise refuse(
            inline.param, error.message, expected=error.expected, got=error.got, hint=error.hint
        ) from None
    escape = desk.services.escape_placeholders
    return await keep_medium(desk.id, (await desk.state()).key, facts, escape=escape)


async def inline_bytes(inline: InlineMedium) -> bytes:
    """Return the content of a medium of a request. Errors: `InvalidRequest` for what is no base64."""
    try:
        return await run_in_content_thread(len(inline.encoded), decode_base64, inline.encoded)
    except ValueError:
        raise refuse(inline.param, "this is no base64", expected="data:image/png;base64,...") from None


_LEFT: set[asyncio.Future[ModelResult]] = set()
"""Calls that go on without their client: a loop keeps only weak references."""


def _forget(work: asyncio.Future[ModelResult]) -> None:
    _LEFT.discard(work)
    if not work.cancelled():
        work.exception()  # it is recorded; nobody waits for it here


def _options(asked: AskedCall, place: CallPlace) -> dict[str, Any]:
    return {
        "model": asked.model,
        "tools": asked.tools,
        "output": asked.output_schema,
        "key": place.key,
        **asked.params,
    }


def now_s(desk: TenantScope) -> int:
    return desk.services.clock.now_us() // 1_000_000


def _answer(desk: TenantKernel, asked: AskedCall, place: CallPlace, result: ModelResult) -> ProgramAnswer:
    return answer_of(result, run_id=place.run_id, model=asked.model, created_s=now_s(desk))


def _misfitting(
    desk: TenantKernel, asked: AskedCall, place: CallPlace, error: OutputInvalid
) -> ProgramAnswer:
    """Return an answer that does not fit its schema: this client's program looks for itself.

    Errors: the same, if there is no answer.
    """
    reply: object = error.facts.get("reply")
    if not isinstance(reply, ModelReply):
        raise error
    result = ModelResult(text=reply.text, usage=reply.usage, key=place.key)
    return _answer(desk, asked, place, result)
