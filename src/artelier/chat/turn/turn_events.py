"""The events that a turn writes to its chat's stream: a variant at the barrier, its end at the commit.

Each is noted beside the receipt that reports it, with no step between: both are in one batch or in none.
"""

from __future__ import annotations

from collections.abc import Iterable

from artelier.chat.rows import TurnStatus
from artelier.chat.turn.main_call import MainCall
from artelier.chat.turn.turn_config import TurnJob
from artelier.ids import MAIN_SPACE
from artelier.kernel import ModelResult, Run, RunCore
from artelier.kernel.prompt.manifest import encode_json
from artelier.log import Blob, BlobRef, DataKey, Draft, EventData, Stream, StreamAppend, make_blob
from artelier.operations import events as ev
from artelier.operations.graph.effects import AppliedEffect, Turned


def session_stream(tenant: str, chat: str) -> Stream:
    return Stream(tenant, MAIN_SPACE, f"session:{chat}")


def reports(
    core: RunCore, applied: Iterable[AppliedEffect]
) -> tuple[tuple[ev.EffectReport, ...], list[Blob]]:
    """Reports of effects, with the content they refer to."""
    blobs: list[Blob] = []
    listed: list[ev.EffectReport] = []
    for one in applied:
        value = None
        if one.status == "applied":
            value, more = core.keep_json(one.value)
            blobs.extend(more)
        listed.append(
            ev.EffectReport(
                operation_id=one.operation,
                index=one.index,
                type=one.type,
                status=one.status,
                tag=one.tag,
                code=one.code,
                value=value,
                version=one.version,
            )
        )
    return tuple(listed), blobs


def changes_of(
    core: RunCore, turned: Turned, blobs: list[Blob], *, key: DataKey | None = None
) -> tuple[ev.ArtifactUpdate, ...]:
    """The new values of persisted artifacts, in order of commit; their content goes to `blobs`.

    `key`: what they are stored under, if not under the run's.
    """
    changes: list[ev.ArtifactUpdate] = []
    for operation, effect, value in turned.written:
        ref, blob = make_blob(core.tenant.id, key or core.key, encode_json(value))
        blobs.append(blob)
        changes.append(
            ev.ArtifactUpdate(
                tag=effect.tag,
                value=ref,
                append=effect.write_mode == "append",
                usage=effect.usage,
                semantics=effect.semantics,
                versions_max=effect.versions_max,
                ttl_s=effect.retention.ttl_s or 0,
                operation=operation,
            )
        )
    return tuple(changes)


REASONING = "reasoning"
"""The channel of what the model thought before a reply: people see it, and no prompt."""


class Chronicle:
    """Notes what a run changes of its chat."""

    def __init__(self, run: Run, job: TurnJob) -> None:
        self._run = run
        self._job = job
        self._stream = session_stream(run.tenant_id, job.chat)
        self.persona = ""
        """What the person is called; empty for no name."""
        self.speaker = ""
        """The name of whoever replies."""
        self.is_group = False
        """True if prompts show names before messages: then no reply stands there as the model gave it."""
        self._reply_key = self._state_key = run.core.key

    async def take_keys(self) -> None:
        """Have the reply, and what the operations change, stored under keys that can be erased alone."""
        core = self._run.core
        if core.actor is not None and core.key.key_id != core.shared_key.key_id:
            keys = await core.store.part_keys(core.tenant.id, core.shared_key, count=2)
            self._reply_key, self._state_key = keys

    def _note(self, data: EventData, blobs: list[Blob]) -> None:
        core = self._run.core
        draft = Draft(data, core.clock.now_us(), core.writer.name)
        core.writer.note_aside(StreamAppend(self._stream, [draft]), blobs)

    def _keep(self, value: object, blobs: list[Blob]) -> BlobRef:
        ref, blob = make_blob(self._run.core.tenant.id, self._reply_key, encode_json(value))
        blobs.append(blob)
        return ref

    def _changes(self, turned: Turned, blobs: list[Blob]) -> tuple[ev.ArtifactUpdate, ...]:
        return changes_of(self._run.core, turned, blobs, key=self._state_key)

    def _user(self, turned: Turned, blobs: list[Blob]) -> tuple[ev.ReplyPart, ...]:
        said = turned.user
        if said is None and not self._job.reworded:
            return ()
        text, by = (self._job.text, "") if said is None else (said.text, said.operation)
        persona = self._name(self.persona, blobs)
        return (ev.ReplyPart(text=self._keep(text, blobs), operation=by, speaker=persona),)

    def _name(self, name: str, blobs: list[Blob]) -> BlobRef | None:
        return self._keep(name, blobs) if name else None

    async def record_begin(self, turned: Turned) -> None:
        job, blobs = self._job, list[Blob]()
        event = ev.VariantBegun(
            branch=job.branch,
            run=self._run.id,
            profile=job.profile,
            scope=job.scope,
            user=self._user(turned, blobs),
            changes=self._changes(turned, blobs),
        )
        self._note(event, blobs)

    async def record_end(
        self,
        turned: Turned,
        call: MainCall | None,
        result: ModelResult | None,
        *,
        status: TurnStatus,
        marks: dict[str, tuple[int, int]],
        tokens: int,
        said: str,
    ) -> None:
        """`said` is the text that a `continue` goes on from."""
        core, job, blobs = self._run.core, self._job, list[Blob]()
        conversation = core.conversations.get("chat")
        parts, is_other = self._parts(turned, call, result, said, blobs)
        shown = len(conversation) if conversation is not None else 0
        if conversation is not None and job.trigger == "continue":
            shown -= 1  # the reply that was there is a part of the new one
        elif conversation is not None and result is not None and not is_other:
            conversation.append(result)
            shown += 1
        event = ev.VariantEnded(
            branch=job.branch,
            run=self._run.id,
            status=status.value,
            finish_reason=call.finish_reason if call is not None else "",
            parts=parts,
            user=self._user(turned, blobs),
            changes=self._changes(turned, blobs),
            marks=marks,
            tokens=tokens,
            shown=max(0, shown),
            patched=is_other and any((one.channel, one.operation) != (REASONING, "") for one in parts),
        )
        if conversation is not None:
            self._run.complete_cycle(1, {})
        self._note(event, blobs)

    def _parts(
        self, turned: Turned, call: MainCall | None, result: ModelResult | None, said: str, blobs: list[Blob]
    ) -> tuple[tuple[ev.ReplyPart, ...], bool]:
        """Return what the reply is made of, and whether prompts show another text than the model gave."""
        text = turned.reply.text if turned.reply is not None else call.text if call else ""
        if said:
            text = join_texts(said, text)
        parts: list[ev.ReplyPart] = []
        if result is not None and (thoughts := result.reasoning):
            parts.append(ev.ReplyPart(channel=REASONING, text=self._keep(thoughts, blobs), prompt=False))
        if text:
            by = turned.reply.operation if turned.reply is not None else ""
            speaker = self._name(self.speaker, blobs)
            parts.append(ev.ReplyPart(text=self._keep(text, blobs), operation=by, speaker=speaker))
        parts.extend(
            ev.ReplyPart(
                channel=block.channel,
                text=self._keep(block.text, blobs),
                prompt=block.prompt,
                ui=block.ui,
                operation=block.operation,
            )
            for block in turned.blocks
        )
        # A call of a tool that nobody answers would stand in every later prompt, and so would an empty reply.
        has_calls = result is not None and result.reply is not None and result.reply.tool_calls
        is_other = result is None or text != result.text or bool(has_calls) or not text or self.is_group
        return tuple(parts), is_other or any(block.prompt for block in turned.blocks)

    def cut(self, call: MainCall | None, *, said: str) -> None:
        """The variant of a run that was cancelled."""
        core, job, blobs = self._run.core, self._job, list[Blob]()
        text = call.text if call is not None else ""
        whole, speaker = join_texts(said, text), self._name(self.speaker, blobs) if text else None
        parts = (ev.ReplyPart(text=self._keep(whole, blobs), speaker=speaker),) if text else ()
        conversation = core.conversations.get("chat")
        shown = len(conversation) if conversation is not None else 0
        event = ev.VariantEnded(
            branch=job.branch,
            run=self._run.id,
            status=TurnStatus.ABORTED.value,
            parts=parts,
            finish_reason="user_abort",
            shown=max(0, shown - bool(said)),
            patched=bool(parts),
        )
        self._note(event, blobs)


def join_texts(said: str, more: str) -> str:
    """A text and what goes on from it; a space between words that neither brought."""
    if not said or not more:
        return said or more
    is_apart = said[-1].isspace() or more[0].isspace() or more[0] in ".,;:!?…)]}'\"”’"
    return said + more if is_apart else f"{said} {more}"
