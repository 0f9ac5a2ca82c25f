"""The conversion of a caller's input into a recorded prompt, and of that prompt back into the same bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

import msgspec

from artelier.errors import CorruptStore, Erased, InvalidRequest, MissingKey, NotFound
from artelier.ids import check_run_id
from artelier.kernel import events as ev
from artelier.kernel.budget import NO_MEDIA_SIZE, CallSize, MediaSize, OutputRoom
from artelier.kernel.erasure import ERASED, LOCKED
from artelier.kernel.history.fork_lineage import (
    MessageRow,
    Place,
    earlier_events,
    key_of,
    lineage,
    next_base,
    owner_of,
    stretch_of,
)
from artelier.kernel.pii_scrubber import Personal
from artelier.kernel.prompt.conversation import Conversation
from artelier.kernel.prompt.manifest import (
    STABLE,
    Content,
    FixedPart,
    Head,
    Joint,
    Manifest,
    Measure,
    Prompt,
    PromptPart,
    Quote,
    RangePart,
    Tail,
    canonical,
    comparable,
    compose,
    decode_head,
    decode_message,
    decode_messages,
    decode_reply,
    decode_tools,
    encode_head,
    encode_json,
    is_untrusted,
    message_of_reply,
    message_of_result,
    part_content,
    quote_messages,
)
from artelier.kernel.prompt.request import MeasuredRequest, is_same_request
from artelier.kernel.queries.content import conversation_rows
from artelier.kernel.queries.steps import find_outcome, manifest_of
from artelier.kernel.run.context import RunCore
from artelier.kernel.run.services import Services
from artelier.log import Blob, BlobRef, decode_stored, stored_blob
from artelier.log.blobs import DataKey, blob_name
from artelier.ports.model import ChatMessage, ModelReply, ModelRequest, Role, ToolSchema, messages_from
from artelier.threads import read_beside_loop
from artelier.tokens import estimate_tokens

_ROLES: dict[str, Role] = {"m": "user", "r": "assistant"}
"""Whose a message most likely was that cannot be read any more, by its form."""

MAX_OUTPUT = "max_output_tokens"

OTHERS_MAX = 1000
"""Runs that a renderer remembers the whereabouts of."""

BYTES_PER_TOKEN = 4
"""By which a prompt is taken for large: of ASCII as `tokens/estimate.py` counts it, hardly more of others."""

T = TypeVar("T")

Messages = Prompt | Conversation | RangePart | Sequence[ChatMessage | Mapping[str, Any] | RangePart]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assembled:
    """A request about to be sent, and the event that explains it."""

    measured: MeasuredRequest
    event: ev.ContextAssembled
    blobs: list[Blob]
    size: CallSize
    """Of the canonical request, and of its media."""
    media: MediaSize = NO_MEDIA_SIZE

    @classmethod
    def of(
        cls,
        measured: MeasuredRequest,
        event: ev.ContextAssembled,
        blobs: list[Blob],
        media: MediaSize = NO_MEDIA_SIZE,
    ) -> Assembled:
        output_max = measured.request.params["max_output_tokens"]
        size = CallSize.of(measured.size_bytes, measured.extra_bytes, output_max=output_max, media=media)
        return cls(measured=measured, event=event, blobs=blobs, size=size, media=media)

    @property
    def request(self) -> ModelRequest:
        return self.measured.request


def prompt_of(core: RunCore, messages: Messages, *, key: str) -> Prompt:
    """Any accepted form of `messages` as parts, for the step `key`. Errors: `InvalidRequest`."""
    if isinstance(messages, Prompt):
        return messages
    if isinstance(messages, Conversation):
        return Prompt(parts=(messages.all(),))
    if isinstance(messages, RangePart):
        return Prompt(parts=(messages,))
    if isinstance(messages, str | bytes | Mapping):
        raise InvalidRequest(
            "messages are a list",
            expected="a list of messages, or a conversation",
            got=type(messages).__name__,
        )
    parts: list[PromptPart] = []
    plain: list[ChatMessage] = []
    for item in messages:
        if isinstance(item, RangePart):
            parts.extend(_plain_parts(core, tuple(plain), f"{key}.{len(parts)}"))
            plain = []
            parts.append(item)
        else:
            plain.extend(messages_from((item,)))
    parts.extend(_plain_parts(core, tuple(plain), f"{key}.{len(parts)}" if parts else key))
    if not parts:
        raise InvalidRequest("a prompt needs at least one message", got="an empty list")
    return Prompt(parts=tuple(parts))


async def prepare_plain(core: RunCore, messages: Messages) -> None:
    """Search long messages of a plain list, before `prompt_of` looks into them.

    Errors: those of the search.
    """
    if core.pii is None or isinstance(messages, Prompt | Conversation | RangePart | str | bytes | Mapping):
        return
    plain = [one for item in messages if not isinstance(item, RangePart) for one in messages_from((item,))]
    leading = next((at for at, one in enumerate(plain) if one.role != "system"), len(plain))
    if leading:
        await core.pii.prepare_foreign(canonical(tuple(plain[:leading])))
    await core.pii.prepare_foreign(*(comparable(message) for message in plain))


def _plain_parts(core: RunCore, messages: tuple[ChatMessage, ...], step: str) -> list[PromptPart]:
    leading = 0
    while leading < len(messages) and messages[leading].role == "system":
        leading += 1
    parts: list[PromptPart] = []
    if leading:
        system = messages[:leading]
        if core.pii is not None:
            system = decode_messages(core.clean(canonical(system), foreign=True))
        parts.append(FixedPart(tag="system", messages=system))
    if messages[leading:]:
        parts.append(core.lists.part(messages[leading:], step=step))
    return parts


async def settle_numbers(core: RunCore, prompt: Prompt) -> Prompt:
    """Before a live request of a resumed run: its messages must not take numbers that are taken.

    A request that was recorded and then broke off (a failure, a stop) has numbered its messages. The same
    messages keep those numbers; others go on under a new name, so that every prompt ever sent still renders.
    """
    if core.row_id is None or all(c.is_settled for c in core.fresh.values()):
        return prompt
    names: dict[str, str] = {}
    for conversation in tuple(core.fresh.values()):
        name = conversation.name
        while not conversation.is_settled and not await _fits(core, conversation):
            conversation.rebase()
        names[name] = conversation.name
    parts = (
        msgspec.structs.replace(part, conversation=names.get(part.conversation, part.conversation))
        if isinstance(part, RangePart)
        else part
        for part in prompt.parts
    )
    return Prompt(parts=tuple(parts), dropped=prompt.dropped, prices=prompt.prices)


async def _fits(core: RunCore, conversation: Conversation) -> bool:
    """Return True if the new messages are those recorded under their numbers; recorded ones are left out."""
    rows = await conversation_rows(
        core.store, core.row_id, conversation.name, start=conversation.first_new, limit=len(conversation) + 1
    )
    if not conversation.skip_recorded([ev.MessageEntry(row.form, row.ref, row.call) for row in rows]):
        return False
    conversation.is_settled = len(rows) == 0
    return True


def assemble(
    core: RunCore,
    prompt: Prompt,
    *,
    key: str,
    model: str,
    params: dict[str, Any],
    tools: tuple[ToolSchema, ...],
    output_schema: dict[str, Any] | None,
    recorded: ev.ContextAssembled | None = None,
    room: OutputRoom | None = None,
    media: MediaSize = NO_MEDIA_SIZE,
) -> Assembled:
    """The request of a prompt with its manifest event and the content that is not stored yet.

    `recorded` is what the log has of this request, if it is asked for again. With `room`, how much may be
    written is decided by it, once the size of the prompt is known, with that of its `media`.
    """
    pii: Counter[str] = Counter()
    parts = prompt.parts
    if core.pii is not None:
        tools = decode_tools(core.clean(comparable(tools)))
        output_schema = msgspec.json.decode(core.clean(comparable(output_schema)))
        parts = tuple([_scrub_part(core.pii, part, pii) for part in parts])
    is_detached = _detaches_tail(recorded)
    contents = [_content_of(part, is_detached=is_detached) for part in parts]
    request = compose(model=model, params=params, tools=tools, output_schema=output_schema, contents=contents)
    measures = [_measure_of(part) for part in parts]
    measured = MeasuredRequest.composed(request, contents, measures)
    if room is not None and (output := room.output_tokens(measured.size_bytes, media)) != params[MAX_OUTPUT]:
        params = {**params, MAX_OUTPUT: output}
        request = msgspec.structs.replace(request, params=params)
        measured = MeasuredRequest.composed(request, contents, measures)
    blobs: list[Blob] = []
    records = [_record(core, part, blobs, is_detached=is_detached) for part in parts]
    stable = 0
    while stable < len(records) and records[stable].stability in STABLE:
        stable += 1
    head = Head(
        model=model,
        params=params,
        tools=_keep(core, comparable(tools), blobs) if tools else None,
        output_schema=_keep(core, comparable(output_schema), blobs) if output_schema else None,
        parts=tuple(records[:stable]),
    )
    added, new_blobs = core.take_added(recorded)
    blobs.extend(new_blobs)
    event = ev.ContextAssembled(
        key=key,
        head=_keep(core, encode_head(head), blobs),
        parts=tuple(records[stable:]),
        added=added,
        dropped=prompt.dropped,
        prices=prompt.prices,
        pii=dict(pii),
        request=measured.identity(core.key),
    )
    return Assembled.of(measured, event, blobs, media)


def with_output_max(core: RunCore, assembled: Assembled, output: int) -> Assembled:
    """Return the same request with another bound of what may be written. Cost: O(its messages)."""
    params = {**assembled.request.params, MAX_OUTPUT: output}
    request = msgspec.structs.replace(assembled.request, params=params)
    measured = MeasuredRequest.of(request, call_ids=assembled.measured.call_ids)
    name = blob_name(assembled.event.head)
    old = next(blob for blob in assembled.blobs if blob.name == name)
    blobs = [blob for blob in assembled.blobs if blob is not old]
    head = msgspec.structs.replace(decode_head(old.content), params=params)
    event = msgspec.structs.replace(
        assembled.event, head=_keep(core, encode_head(head), blobs), request=measured.identity(core.key)
    )
    return Assembled.of(measured, event, blobs, assembled.media)


def _detaches_tail(recorded: ev.ContextAssembled | None) -> bool:
    """Return False for a recorded request with its tail inside the last message, as 0.1 made them."""
    attached = [part for part in recorded.parts if _is_tail(part)] if recorded is not None else []
    return not attached or attached[0].detached


def _is_tail(part: PromptPart | ev.PartRecord) -> bool:
    """Return True for text of the last message that may be another one in the next prompt."""
    return not isinstance(part, RangePart) and part.attach and part.stability not in STABLE


def _content_of(part: PromptPart, *, is_detached: bool) -> Content:
    content = part_content(part)
    return Tail(content) if is_detached and isinstance(content, str) and _is_tail(part) else content


def _measure_of(part: PromptPart) -> Measure | None:
    """Return what is known of the messages that a part shows."""
    if not isinstance(part, RangePart) or part.quote is not None or part.measure is None:
        return None
    return part.measure if part.measure.messages is part.messages else None


def _scrub_part(personal: Personal, part: PromptPart, pii: Counter[str]) -> PromptPart:
    """A part as a model may see it."""
    if isinstance(part, FixedPart) and (part.joined or part.attach):
        text = personal.text(part.text, pii)
        if text == part.text:
            return part
        return msgspec.structs.replace(part, text=text, stability="append_only")
    content = part_content(part)
    before = content if isinstance(content, tuple) else part.messages
    messages = personal.scrub_messages(before, pii)
    if messages == before:
        return part
    return FixedPart(tag=part.tag, messages=messages, stability="append_only", tokens=part.tokens)


def _keep(core: RunCore, content: bytes, blobs: list[Blob]) -> BlobRef:
    ref, blob = core.keep(content)
    blobs.append(blob)
    return ref


def _record(core: RunCore, part: PromptPart, blobs: list[Blob], *, is_detached: bool) -> ev.PartRecord:
    if isinstance(part, RangePart):
        record = ev.PartRecord(
            tag=part.tag,
            conversation=part.conversation,
            start=part.start,
            end=part.end,
            tokens=part.tokens,
            cut=part.cut,
            trust=_range_trust(part),
        )
        return record if part.quote is None else _quoting(core, record, part.quote, blobs)
    is_text = part.attach or part.joined
    content = part.text.encode() if is_text else canonical(part.messages)
    return ev.PartRecord(
        tag=part.tag,
        blob=_keep(core, content, blobs),
        stability=part.stability,
        src=part.src,
        tokens=part.tokens or estimate_tokens(content),
        attach=part.attach,
        detached=is_detached and _is_tail(part),
        joined=part.joined,
        trust=trust_label(part.messages, part.trust),
        cut=part.cut,
    )


def trust_label(messages: Sequence[ChatMessage], said: str = "") -> str:
    """Return the trust label of a part: never better than that of anything in it.

    `said`: the label that the maker of a fixed part gives it. Results of tools come from outside, whatever
    a tool says of itself: a loaded skill may be anybody's. So does what stands between marks in a
    conversation.
    """
    if said not in ("", "trusted"):
        return said
    is_labelled = bool(said)
    return "untrusted" if any(is_untrusted(one, is_labelled=is_labelled) for one in messages) else "trusted"


def _range_trust(part: RangePart) -> str:
    measure = part.measure
    if measure is None or measure.messages is not part.messages:
        return trust_label(part.messages)
    return "untrusted" if measure.untrusted else "trusted"


def _quoting(core: RunCore, record: ev.PartRecord, quote: Quote, blobs: list[Blob]) -> ev.PartRecord:
    return msgspec.structs.replace(
        record,
        form=quote.form,
        line_tokens_max=quote.line_tokens_max,
        src=(quote.source,),
        blob=_keep(core, canonical(quote.told), blobs) if quote.told else None,
        trust="untrusted",
    )


# Back from the log


def _size_bytes(head: Head, event: ev.ContextAssembled) -> int:
    return BYTES_PER_TOKEN * sum(part.tokens for part in (*head.parts, *event.parts))


class Renderer:
    """Renders stored prompts of one run: the exact request, byte for byte.

    One that is `forgiving` puts `[erased]` for what was erased (`[locked]` without the vault key), and goes
    on: it is for people to look at.
    """

    def __init__(
        self,
        services: Services,
        tenant: str,
        run_id: str,
        places: list[Place],
        key: DataKey,
        *,
        forgiving: bool = False,
    ) -> None:
        self._services = services
        self._tenant = tenant
        self.run_id = run_id
        self._places = places
        self._key = key
        self._others: dict[str, list[Place]] = {}
        self._forgiving = forgiving
        self.erased: list[str] = []
        """What was rendered as `[erased]` so far: parts by tag, messages by conversation and number. What was
        rendered as `[locked]` says so at its end."""
        self._mark = ERASED

    @classmethod
    async def open(cls, services: Services, tenant: str, run_id: str, *, forgiving: bool = False) -> Renderer:
        """Errors: `NotFound`; `Erased`, unless it is forgiving."""
        places = await lineage(services, tenant, run_id)
        try:
            key = await key_of(services, places)
        except (Erased, MissingKey):
            if not forgiving:
                raise
            key = DataKey(None, b"")
        return cls(services, tenant, run_id, places, key, forgiving=forgiving)

    async def event(self, key: str) -> ev.ContextAssembled:
        """The newest manifest event of a step. Errors: `NotFound`."""
        for place in self._places:
            manifest = await manifest_of(self._services.store, place.stream_id, key, upto=place.upto)
            if manifest is not None:
                return manifest.read(ev.ContextAssembled)
        for place in self._places[1:]:
            # The origin may have asked again since the fork, which the view alone tells of.
            found = await earlier_events(self._services, place, key, kinds=(ev.ContextAssembled.KIND,))
            if found:
                stored = await self._services.store.read(place.stream, after=found[-1][0] - 1, limit=1)
                return cast(ev.ContextAssembled, stored[0].decode())
        raise NotFound(
            f"no model step {key!r} in run {self.run_id}",
            hint=f"`artelier runs steps {self.run_id}` lists its steps.",
        )

    async def manifest(self, key: str) -> Manifest:
        event = await self.event(key)
        head = await self.head(event)
        ranges = sum(1 for part in event.parts if part.conversation and not part.form)
        sent = await self._find_outcome(key)
        return Manifest(
            run_id=self.run_id,
            key=key,
            model=head.model,
            params=head.params,
            tools=head.tools,
            output_schema=head.output_schema,
            parts=(*head.parts, *event.parts),
            dropped=event.dropped,
            cache_boundary=len(head.parts) + ranges,
            pii=event.pii,
            inclusion_prices=event.prices,
            request=event.request,
            adapter=sent.adapter if sent else "",
            body=sent.body if sent else "",
            not_sent=sent.not_sent if sent else (),
        )

    async def _find_outcome(self, key: str) -> ev.ModelCompleted | ev.ModelFailed | None:
        """Return what came of a step, which says what was sent for it; None without a reply."""
        kinds = {one.KIND: one for one in (ev.ModelCompleted, ev.ModelFailed)}
        for place in self._places:
            outcome = await find_outcome(self._services.store, place.stream_id, key, upto=place.upto)
            if outcome is not None and outcome.kind in kinds:
                return outcome.read(kinds[outcome.kind])
        return None

    async def size(self, key: str) -> int:
        """Return about how many bytes a prompt takes, without reading its messages. Errors: `NotFound`."""
        event = await self.event(key)
        return _size_bytes(await self.head(event), event)

    async def render(self, key: str) -> ModelRequest:
        """The request of a model step. Errors: `NotFound`; `CorruptStore` if its bytes are not the same."""
        return await self.render_event(await self.event(key))

    async def render_event(self, event: ev.ContextAssembled) -> ModelRequest:
        head = await self.head(event)
        contents = [await self._content_of(part) for part in (*head.parts, *event.parts)]
        if not contents or (self.erased and isinstance(contents[0], Joint)):  # the head is gone
            contents.insert(0, (ChatMessage(role="user", content=self._mark),))
        schema = await self._settings("output schema", head.output_schema)
        tools = await self._settings("tools", head.tools)

        def render() -> tuple[ModelRequest, bool]:
            request = compose(
                model=head.model,
                params=head.params,
                tools=decode_tools(tools) if tools else (),
                output_schema=decode_stored(schema) if schema else None,
                contents=contents,
            )
            is_same = self.erased or is_same_request(event.request, MeasuredRequest.of(request), self._key)
            return request, bool(is_same)

        request, is_same = await read_beside_loop(_size_bytes(head, event), render)
        if not is_same:
            raise CorruptStore(
                f"the prompt of {self.run_id}:{event.key} does not render to the bytes that were sent",
                hint="Run `artelier verify`.",
            )
        return request

    def _note_lost(self, what: str, error: Erased) -> str:
        """Note content that is gone, and return its mark. Errors: `error`, unless it is forgiving."""
        if not self._forgiving:
            raise error
        self._mark = error.mark
        self.erased.append(f"{what} {error.mark}" if error.mark == LOCKED else what)
        return error.mark

    async def _content_of(self, part: ev.PartRecord) -> Content:
        content = await self.content(part)
        if not isinstance(content, str):
            return content
        if part.joined:
            return Joint(content)
        return Tail(content) if part.detached else content

    async def head(self, event: ev.ContextAssembled) -> Head:
        """The stable beginning of a prompt."""
        try:
            return decode_head(await self._blob(event.head))
        except Erased as error:
            return Head(model=self._note_lost("head", error))

    async def _settings(self, what: str, ref: str | None) -> bytes | None:
        """Tools, or the schema of the output; None if there are none, or none any more."""
        try:
            return None if ref is None else await self._blob(ref)
        except Erased as error:
            self._note_lost(what, error)
            return None

    async def content(self, part: ev.PartRecord) -> tuple[ChatMessage, ...] | str:
        """The messages of a part, or the text that it adds to one of another part."""
        try:
            return await self._load_part(part)
        except Erased as error:
            mark = self._note_lost(f"part {part.tag}", error)
            return mark if part.attach or part.joined else (ChatMessage(role="user", content=mark),)

    async def _load_part(self, part: ev.PartRecord) -> tuple[ChatMessage, ...] | str:
        if part.conversation is not None:
            messages = await self.messages(part.conversation, part.start, part.end)
            if not part.form:
                return tuple(messages)
            told = await self._blob(part.blob) if part.blob is not None else b'""'
            quote = Quote(
                form=part.form,
                line_tokens_max=part.line_tokens_max,
                source="".join(part.src),
                told=decode_stored(told, type=str),
            )
            return (quote_messages(messages, first=part.start, quote=quote),)
        if part.blob is None:
            return ()
        is_text = part.attach or part.joined
        return await self._decoded(part.blob, bytes.decode if is_text else decode_messages)

    async def messages(self, conversation: str, start: int, end: int) -> list[ChatMessage]:
        """Messages of the run by number, those included that a conversation goes on from.

        Errors: `CorruptStore` if one is missing, `NotFound` if the run is that has it.
        Cost: O(messages), and two queries for each run on the way back to the first one.
        """
        found: dict[int, ChatMessage] = {}
        run_id, name, end_here = self.run_id, conversation, end
        below: int | None = None
        while True:
            places = await self._places_of(run_id)
            rows, base = await stretch_of(self._services, places, name, start=start, end=end_here)
            for n, (_, row) in rows.items():
                if n not in found:
                    found[n] = await self._message_or_gone(places, row, name)
            first = start if base is None else max(start, base.upto + 1)
            missing = next((n for n in range(first, end_here + 1) if n not in found), None)
            if missing is not None:
                raise CorruptStore(f"message {missing} of conversation {name[:80]!r} of {run_id} is missing")
            if base is None or base.upto < start:
                return [found[n] for n in range(start, end + 1)]
            below = next_base(base, below=below).upto
            run_id, name, end_here = base.run_id, base.conversation, min(end_here, base.upto)

    async def _places_of(self, run_id: str) -> list[Place]:
        """Return where the history of a run stands whose messages this one shows; it never changes."""
        if run_id == self.run_id:
            return self._places
        if (places := self._others.get(run_id)) is None:
            if len(self._others) >= OTHERS_MAX:
                self._others.clear()
            places = self._others[run_id] = await lineage(self._services, self._tenant, run_id)
        return places

    async def _message_or_gone(self, places: list[Place], row: MessageRow, conversation: str) -> ChatMessage:
        try:
            return await self._message(places, row)
        except Erased as error:
            mark = self._note_lost(f"message {row.n} of {conversation}", error)
            role = _ROLES.get(row.form, "tool")
            return ChatMessage(role=role, content=mark)

    async def _message(self, places: list[Place], row: MessageRow) -> ChatMessage:
        if row.form == "m":
            return await self._decoded(row.ref, decode_message)
        outcome = await self._outcome(places, row.ref)
        if row.form == "r":
            return message_of_reply(await self._decoded(outcome, decode_reply))
        return await self._decoded(outcome, partial(message_of_result, call=row.call))

    async def reply(self, key: str) -> ModelReply:
        """The recorded reply of a model step. Errors: `CorruptStore` if it has none."""
        return decode_reply(await self._blob(await self._outcome(self._places, key)))

    async def _outcome(self, places: list[Place], key: str) -> str:
        """Blob reference of a step's recorded reply or result."""
        for place in places:
            outcome = await find_outcome(self._services.store, place.stream_id, key, upto=place.upto)
            if outcome is not None:
                data = outcome.read(dict[str, Any])
                return data.get("reply") or data["result"]
        raise CorruptStore(f"step {key!r} of {places[0].run_id} has no recorded outcome")

    async def _blob(self, ref: str) -> bytes:
        return await stored_blob(self._services.store, self._tenant, ref)

    async def _decoded(self, ref: str, decode: Callable[[bytes], T]) -> T:
        content = await self._blob(ref)
        return await read_beside_loop(len(content), decode, content)


async def continue_conversation(
    core: RunCore, name: str, base_run_id: str, base_conversation: str, upto: int, *, keep_last: int
) -> Conversation:
    """See `Run.continue_conversation`."""
    conversation = core.conversation(name)
    check_run_id(base_run_id)
    encode_json(base_conversation)
    for what, value, least in (("upto", upto, 1), ("keep_last", keep_last, 0)):
        if not isinstance(cast(object, value), int) or isinstance(value, bool):
            raise InvalidRequest(what, expected="a whole number", got=type(value).__name__)
        if not least <= value <= ev.NUMBER_MAX:
            raise InvalidRequest(what, expected=f"{least} to {ev.NUMBER_MAX}", got=str(value)[:40])
    if not isinstance(cast(object, base_conversation), str) or (
        (base_run_id, base_conversation) == (core.run_id, name)
    ):
        raise InvalidRequest(
            f"conversation {name!r} cannot go on from this",
            expected="the name of another conversation",
            got=repr(base_conversation)[:80],
        )
    services, tenant = core.services, core.tenant.id
    owner = await owner_of(services, tenant, base_run_id, base_conversation, number=upto)
    renderer = await Renderer.open(services, tenant, base_run_id)
    first = max(1, upto - keep_last + 1)
    held = await renderer.messages(base_conversation, first, upto) if first <= upto else []
    conversation.go_on(ev.MessageEntry("b", *owner), upto, held)
    return conversation


def differing_part(recorded: list[tuple[str, bytes]], now: list[tuple[str, bytes]]) -> str:
    """Tag of the first part that differs between two prompts given as `(tag, content)` lists."""
    for old, new in zip(recorded, now, strict=False):
        if old != new:
            return new[0] if old[0] == new[0] else f"{old[0]} / {new[0]}"
    if len(recorded) != len(now):
        longer = recorded if len(recorded) > len(now) else now
        return longer[min(len(recorded), len(now))][0]
    return "parameters"
