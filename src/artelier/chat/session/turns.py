"""The turns of a chat: asking for replies; driving, streaming and cancelling the runs that make them.

The model may also write words for the person: a draft, which is said only when the person says it. Its prompt
is that of a turn, with its lore and state; operations do not run. It is a run of its own beside the turns,
billed and recorded, and nothing of the chat changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.artifacts.media.inspection import MediaFacts, inspect_attachments, keep_medium
from artelier.chat.queries import chats, tree
from artelier.chat.queries.chats import left_unbegun
from artelier.chat.rows import NODES_PER_EVENT, Node, draft_name, draft_range, run_name
from artelier.chat.session import settings as cs
from artelier.chat.session.chat_reader import ChatReader
from artelier.chat.session.edits import ATTEMPTS_MAX, ChatDeletions
from artelier.chat.session.settings import StoredChatSettings
from artelier.chat.turn.main_call import main_call
from artelier.chat.turn.speakers import SpeakerChoice, choose, names_of, own_words
from artelier.chat.turn.turn_config import CARD_RULES, IMPERSONATE, TurnJob, chat_of
from artelier.chat.turn.turn_events import session_stream
from artelier.chat.turn.turn_loop import TurnParts
from artelier.chat.turn.turn_runner import TurnResult, drive, has_ended, record_keys, recorded_job
from artelier.errors import Conflict, External, InvalidRequest, NotFound, SequenceConflict
from artelier.kernel import run_row
from artelier.kernel.queries.content import blob_json
from artelier.kernel.queries.runs import count_between
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, DataKey
from artelier.operations import events as ev
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.chat.session.event_stream import RunEvent

_TRIGGERS = ("generate", "regenerate", "speak", "continue", "resume")


class ChatTurns(ChatDeletions):
    """The part of `Session` that asks for replies."""

    # Turns

    async def generate(
        self,
        text: str,
        *,
        speaker: str = "",
        attachments: Sequence[bytes] = (),
        deadline_s: float | None = None,
        **params: Any,
    ) -> TurnResult:
        """Say something, and get the turn with its reply. `params` are for this one main call.

        `speaker`: which character of a group replies; by default the chat's rule chooses. `attachments`:
        images, sounds, PDFs and texts that are shown with the words. A turn that fails is a result with
        `failed`.
        Errors: `Conflict` while another run of the branch has not ended; `InvalidRequest`; `LeaseHeld`;
        `NotFound` for no such character.
        """
        run_id, job = await self._ask(
            "generate",
            text=text,
            speaker=speaker,
            attachments=attachments,
            deadline_s=deadline_s,
            params=params,
        )
        return await drive(self.desk, run_id, job)

    async def speak(self, speaker: str = "", *, deadline_s: float | None = None, **params: Any) -> TurnResult:
        """Have a character go on without words of the person: a turn that has a reply alone.

        Errors: as `generate`; `Conflict` if nothing was said yet.
        """
        run_id, job = await self._ask("speak", speaker=speaker, deadline_s=deadline_s, params=params)
        return await drive(self.desk, run_id, job)

    async def regenerate(
        self,
        text: str = "",
        *,
        turn: int | None = None,
        speaker: str = "",
        deadline_s: float | None = None,
        **params: Any,
    ) -> TurnResult:
        """Reply again: another variant of the newest turn, with the state from before the turn.

        `turn`: run again from an earlier turn instead; those after it stay under the variant that they were
        said after. `text`: other words of the person, for this variant alone. `speaker`: as for `generate`;
        by default whoever replied before.
        Errors: as `generate`; `Conflict` if nothing was said yet; `NotFound` for no such turn.
        """
        run_id, job = await self._ask(
            "regenerate", text=text, turn=turn, speaker=speaker, deadline_s=deadline_s, params=params
        )
        return await drive(self.desk, run_id, job)

    async def continue_(self, *, deadline_s: float | None = None, **params: Any) -> TurnResult:
        """Extend the selected reply; its artifacts stay what they are. Errors: as `generate`;
        `Conflict` if there is no reply."""
        run_id, job = await self._ask("continue", deadline_s=deadline_s, params=params)
        return await drive(self.desk, run_id, job)

    async def impersonate(self, *, deadline_s: float | None = None, **params: Any) -> DraftedWords:
        """Have the model write the person's next message: a draft, which nobody has said yet.

        It is a run beside the turns; operations do not run, and nothing of the chat changes.
        Errors: `External` if the model wrote nothing; as `generate`, but also while a run is at work.
        """

        checked = cs.checked_params(params) if params else {}
        return await draft_words(self, params=checked, deadline_ms=cs.deadline_ms(deadline_s))

    async def ask(
        self,
        text: str = "",
        *,
        trigger: str = "generate",
        turn: int | None = None,
        speaker: str = "",
        attachments: Sequence[bytes] = (),
        deadline_s: float | None = None,
        **params: Any,
    ) -> str:
        """Have the branch wait for a turn that nobody drives yet; the id of its run, which `resume` drives.

        `trigger`: `generate`, `regenerate` (`text`, `turn`: as there), or `speak` and `continue`, which take
        no `text`. Errors: as `generate`.
        """
        _check_trigger(trigger, text, turn, _TRIGGERS[:-1])
        asked = await self._ask(
            trigger,
            text=text,
            turn=turn,
            speaker=speaker,
            attachments=attachments,
            deadline_s=deadline_s,
            params=params,
        )
        return asked[0]

    async def resume(self, *, on_wait: str = "await") -> TurnResult:
        """Bring the branch's newest run to its end: after a crash, a pause, an approval, a raised budget.

        Errors: `NotFound` if none was asked for; `LeaseHeld` if another process drives it.
        """
        run_id, job = await self._newest()
        return await drive(self.desk, run_id, job, on_wait=on_wait)

    async def cancel(self, *, note: str = "") -> None:
        """End the branch's newest run for good, whoever drives it; nothing happens if it has ended.

        What was committed before stays; a reply that was being written is kept as far as it came.
        """
        run_id, job = await self._newest()
        if await recorded_job(self.desk, run_id) is None:
            await self._start_only(run_id, job)
        if await has_ended(self.desk, run_id):
            return
        try:
            by = self._by or (await self.settings()).principal
            await self.desk.cancel(run_id, by=by, note=note)
        except Conflict:
            if not await has_ended(self.desk, run_id):  # it ended in the meantime
                raise

    async def _start_only(self, run_id: str, job: TurnJob) -> None:
        """Begin a run that was asked for and never started, so that it can be ended."""
        keys = await record_keys(self.desk, run_id, chat=job.chat)
        opened = self.desk.run(run_id, loop="chat", model=job.model, settings=job.settings(), **keys)
        with suppress(asyncio.CancelledError):
            async with opened:
                raise asyncio.CancelledError

    async def _newest(self) -> tuple[str, TurnJob]:
        branch = await self.branch_row()
        if not branch.run:
            raise NotFound(f"branch {branch.name!r} of chat {self.chat_id!r} waits for no run")
        settings = await blob_json(self.desk.services, self.desk.id, branch.job)
        return branch.run, TurnJob.from_stored(settings)

    async def stream(
        self,
        text: str = "",
        *,
        trigger: str = "generate",
        turn: int | None = None,
        speaker: str = "",
        on_wait: str = "await",
        attachments: Sequence[bytes] = (),
        deadline_s: float | None = None,
        **params: Any,
    ) -> AsyncGenerator[RunEvent | TurnResult]:
        """Like `generate`, yielding `RunEvent`s as they come, the `TurnResult` last.

        Pieces of the reply are `main_llm.delta`, pieces of what the model thinks before `main_llm.reasoning`.

        `trigger`: `generate`; `regenerate`, `speak`, `continue` or `resume` do as the methods of these names;
        the last three take no `text`. Who leaves early stops the drive; the run stays, and `resume` goes on
        with it.
        """
        _check_trigger(trigger, text, turn, _TRIGGERS)
        if trigger == "resume":
            run_id, job = await self._newest()
        else:
            run_id, job = await self._ask(
                trigger,
                text=text,
                turn=turn,
                speaker=speaker,
                attachments=attachments,
                deadline_s=deadline_s,
                params=params,
            )
        async with aclosing(self._stream_run(run_id, job, on_wait=on_wait)) as items:
            async for item in items:
                yield item

    async def _stream_run(
        self, run_id: str, job: TurnJob, *, on_wait: str
    ) -> AsyncGenerator[RunEvent | TurnResult]:
        from artelier.chat.session.event_stream import follow_run

        driving = asyncio.ensure_future(drive(self.desk, run_id, job, on_wait=on_wait))
        try:
            async with aclosing(follow_run(self.desk, run_id, after=0, driving=driving)) as items:
                async for item in items:
                    yield item
            yield await asyncio.shield(driving)  # a cancelled drive may end well; who watches leaves
        finally:
            if not driving.done():
                driving.cancel()
            await asyncio.gather(driving, return_exceptions=True)

    async def _ask(
        self,
        trigger: str,
        *,
        text: str = "",
        turn: int | None = None,
        speaker: str = "",
        attachments: Sequence[bytes] = (),
        deadline_s: object,
        params: dict[str, Any],
    ) -> tuple[str, TurnJob]:
        """Append `turn.asked` for the branch as it stands; the run's id and what it is to do."""
        if trigger == "generate" or text:
            text = cs.said_text(text)
        trigger = "generate" if trigger == "speak" else trigger
        if params:
            params = cs.checked_params(params)
        limit_ms = cs.deadline_ms(deadline_s)
        settings = await self.settings()
        self.desk.services.model(settings.model)
        if attachments and not (trigger == "generate" and text):
            raise InvalidRequest("attachments are shown with the words of a new turn", got=trigger)
        blobs: list[Blob] = []
        words = await self._part_key()
        facts = await inspect_attachments(attachments)
        shown = [await self._attach(one, blobs, key=words) for one in facts]
        profile, ref = await cs.profile_of(self.desk, settings)
        is_plain = profile is None or not profile.enabled
        await self._begin_left()
        for _ in range(ATTEMPTS_MAX):
            seq = await self.seq()
            chat, branch = await self.row(), await self.branch_row()
            place = branch.head if turn is None else await self._node_of(turn)
            head = await tree.node_row(self.store, chat.id, place) if place else None
            run_id = run_name(self.chat_id, chat.runs + 1)
            choice = await self._speaker(
                settings, trigger, wished=speaker, words=text, run_id=run_id, upto=turn
            )
            job = TurnJob(
                chat=self.chat_id,
                branch=branch.name,
                trigger=trigger,
                card_rules=CARD_RULES,
                reworded=trigger == "regenerate" and bool(text),
                node=_hangs_on(head, trigger),
                text=await self._words(head, trigger, text),
                attachments=tuple(shown) or await self._shown_before(head, trigger),
                profile="" if is_plain else ref,
                profile_id="" if is_plain or profile is None else profile.profile_id,
                session_id="" if is_plain else await self.session_id(profile),
                model=settings.model,
                params={**settings.params, **params},
                deadline_ms=limit_ms or settings.deadline_ms,
                history_max=settings.history_max,
                principal=settings.principal,
                speaker=choice.name,
                picks_speaker=choice.is_open,
            )
            # In one batch with what is asked: a refused request leaves the branch where it was.
            rewound = ev.BranchRewound(branch=branch.name, node=place) if place != branch.head else None
            try:
                await self._append_asked(
                    job, run_id, settings, seq=seq, shown=blobs, key=words, rewound=rewound
                )
            except SequenceConflict:
                continue
            self.desk.services.at("turn.asked")
            return run_id, job
        raise self._contention_error()

    async def _begin_left(self) -> None:
        """Reply first to what the branch was asked by a process that was killed before its run began."""
        run_id = (await self.branch_row()).run
        if run_id and not await has_ended(self.desk, run_id):
            await drive_unbegun(self.desk, run_id, on_wait="suspend")

    async def _speaker(
        self,
        settings: StoredChatSettings,
        trigger: str,
        *,
        wished: str,
        words: str,
        run_id: str,
        upto: int | None,
    ) -> SpeakerChoice:
        """Choose who replies: in a group by its rule, of a reply that there is who gave it.

        `upto`: the turn that is run again; None for the newest.
        """
        last, said = "", words
        if settings.group and not wished:
            for one in reversed(await self.turns(before=None if upto is None else upto + 1, limit=5)):
                last, said = one.speaker, said or one.text
                if last:
                    break
            if trigger != "generate" and last in names_of(settings.group):
                wished = last
        return choose(settings.group, settings.speaks, wished=wished, words=said, last=last, seed=run_id)

    async def _append_asked(
        self,
        job: TurnJob,
        run_id: str,
        settings: StoredChatSettings,
        *,
        seq: int,
        shown: Sequence[Blob],
        key: DataKey,
        rewound: ev.BranchRewound | None,
    ) -> None:
        blobs = list(shown)
        is_new, is_wordless = job.trigger == "generate", job.trigger == "generate" and not job.text
        persona = str(settings.user.get("name") or ("User" if settings.group else "")) if job.text else ""
        asked = ev.TurnAsked(
            branch=job.branch,
            run=run_id,
            trigger=job.trigger,
            settings=await self._keep_json(job.settings(), blobs, key=key),
            text=await self._keep_json(job.text, blobs, key=key) if is_new and job.text else None,
            tokens=estimate_tokens(job.text) if is_new else 0,
            persona=await self._keep_json(persona, blobs, key=key) if is_new and persona else None,
            is_wordless=is_wordless,
            process=self.desk.services.process,
        )
        await self._append(*([rewound] if rewound is not None else []), asked, blobs=blobs, seq=seq)

    async def _attach(self, facts: MediaFacts, blobs: list[Blob], *, key: DataKey) -> dict[str, Any]:
        """Return the piece of a message that shows a medium."""
        escape = self.desk.services.escape_placeholders
        kept = await keep_medium(self.desk.id, key, facts, escape=escape)
        blobs += kept.blobs
        return msgspec.to_builtins(kept.medium.part)

    async def _shown_before(self, head: Node | None, trigger: str) -> tuple[dict[str, Any], ...]:
        """Return what the person showed with the words that are replied to once more."""
        if trigger != "regenerate" or head is None:
            return ()
        asked = await self._asked(head.turn)
        if asked is None:
            return ()
        settings = await blob_json(self.desk.services, self.desk.id, asked.settings)
        return TurnJob.from_stored(settings).attachments

    async def _asked(self, turn: int) -> ev.TurnAsked | None:
        """Return the event that began a turn; None for a greeting and a turn from elsewhere."""
        stream = session_stream(self.desk.id, self.chat_id)
        found = await self.store.read(stream, after=turn // NODES_PER_EVENT - 1, limit=1)
        data = found[0].decode() if found else None
        return data if isinstance(data, ev.TurnAsked) else None

    async def _words(self, head: Node | None, trigger: str, text: str) -> str:
        """The words that are replied to."""
        if trigger != "regenerate" or head is None or text:
            return text
        asked = await tree.node_row(self.store, head.chat, head.turn)
        return "".join(await chats.texts(self.store, self.desk.id, asked.user_parts()))


def _check_trigger(trigger: str, text: str, turn: int | None, known: tuple[str, ...]) -> None:
    """Errors: `InvalidRequest`."""
    takes_text = trigger in ("generate", "regenerate")
    if trigger not in known or (text and not takes_text) or (turn is not None and trigger != "regenerate"):
        raise InvalidRequest(
            "trigger",
            expected="generate with a text; regenerate, with a text and a turn or without; "
            + " or ".join(one for one in known if one not in ("generate", "regenerate")),
            got=repr(trigger)[:80],
        )


def _hangs_on(head: Node | None, trigger: str) -> int:
    """The node that a new variant hangs on; of `continue` the one that is extended."""
    if head is None:
        return 0
    return head.parent if trigger == "regenerate" else head.node


async def drive_unbegun(desk: TenantScope, run_id: str, *, on_wait: str) -> bool:
    """Drive a turn that was left unbegun until it ends or waits. False if there is none of this id.

    Errors: those of `Session.resume`.
    """
    for one in await left_unbegun(desk.services, tenant=desk.id, chat=chat_of(run_id), run=run_id):
        await ChatTurns(desk, one.chat, branch=one.branch).resume(on_wait=on_wait)
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftedWords:
    """The words that the model would have the person say."""

    text: str
    run_id: str
    cost_microusd: int


async def draft_words(session: ChatReader, *, params: Mapping[str, Any], deadline_ms: int) -> DraftedWords:
    """Have the model write the person's next message. Errors: `External` if it wrote none; those of a run."""
    desk, job = session.desk, await _job(session, params=params, deadline_ms=deadline_ms)
    number = await count_between(session.store, desk.id, *draft_range(job.chat)) + 1
    run_id = draft_name(job.chat, number)
    opened = desk.run(
        run_id,
        model=job.model,
        settings=job.settings(),
        principal=f"chat:{job.chat}",
        conversation=job.chat,
        by=session.actor or job.principal,
        on_wait="suspend",
        **await record_keys(desk, run_id, chat=job.chat),
    )
    async with opened as run:
        turn = await TurnParts.begin(run, job, desk=desk, sink=None)
        prompt = await turn.parts().assemble(turn.start)
        left_s = job.deadline_ms / 1_000 if job.deadline_ms else None
        call, _ = await main_call(run, prompt, model=job.model, params=job.params, left_s=left_s, sink=None)
        name = str(turn.people["user"]["name"])
        text = own_words(call.text, name, [str(turn.people["char"]["name"]), *turn.found.members]).strip()
        told: dict[str, Any] = {"text": text, "finish_reason": call.finish_reason}
        if call.is_ok and text:
            run.finish(told)
        else:
            run.fail(call.code or call.finish_reason, call.message or "the model wrote nothing", result=told)
    if not call.is_ok or not text:
        raise External(
            f"the model wrote nothing for the person: {call.message or call.finish_reason}",
            hint=f"See `artelier inspect {run_id}`.",
        )
    cost = (await run_row(session.store, desk.id, run_id)).cost
    return DraftedWords(text=text, run_id=run_id, cost_microusd=cost)


async def _job(session: ChatReader, *, params: Mapping[str, Any], deadline_ms: int) -> TurnJob:
    """Return a job that ends where the branch does, and asks for the person's words."""
    settings, branch = await session.settings(), await session.branch_row()
    profile, ref = await cs.profile_of(session.desk, settings)
    is_plain = profile is None or not profile.enabled
    return TurnJob(
        chat=session.chat_id,
        branch=branch.name,
        trigger=IMPERSONATE,
        card_rules=CARD_RULES,
        node=branch.head,
        profile="" if is_plain else ref,
        profile_id="" if is_plain or profile is None else profile.profile_id,
        session_id="" if is_plain else await session.session_id(profile),
        model=settings.model,
        params={**settings.params, **params},
        deadline_ms=deadline_ms or settings.deadline_ms,
        history_max=settings.history_max,
        principal=settings.principal,
        speaker=names_of(settings.group)[0] if settings.group else "",
    )
