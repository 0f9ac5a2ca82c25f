"""`Session`: the public door of a chat. One branch of it at a time; it holds no truth that the log lacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

import msgspec

from artelier.artifacts.access import check_principal
from artelier.artifacts.media.inspection import inspect_medium, keep_medium
from artelier.chat.queries import chats, tree
from artelier.chat.queries.chats import chat_key, left_unbegun
from artelier.chat.rows.nodes import MAIN, Node, run_name
from artelier.chat.session import settings as cs
from artelier.chat.session.edits import ATTEMPTS_MAX, ChatEdits
from artelier.chat.session.settings import UNSET, StoredChatSettings
from artelier.chat.turn.lorebooks import read_book
from artelier.chat.turn.speakers import SpeakerChoice, choose, names_of
from artelier.chat.turn.turn_config import CARD_RULES, TurnJob, chat_of
from artelier.chat.turn.turn_runner import TurnResult, drive, has_ended, recorded_job
from artelier.errors import Conflict, InvalidRequest, NotFound, SequenceConflict
from artelier.kernel.queries.content import blob_json
from artelier.kernel.tenants.registry import TenantScope
from artelier.log import Blob, EventData, check_subject
from artelier.operations import events as ev
from artelier.tokens import estimate_tokens

if TYPE_CHECKING:
    from artelier.chat.foreign_files import ForeignFile
    from artelier.operations.lore.untrusted_files import Source

_TRIGGERS = ("generate", "regenerate", "speak", "continue", "resume")


class Session(ChatEdits):
    """One branch of a chat. Any number of handles, in any processes, may be open.

    `Session.open(kernel, "c1", model="offline")` makes one; reading (`turns`, `art`, ...) is in `Reader`.
    """

    def by(self, actor: str) -> Session:
        """The same branch; events of what is asked for, chosen and changed through it name `actor`.

        Rights stay those of the chat's principal. Errors: `InvalidRequest`.
        """
        return self._like(self.branch_name, by=check_principal(actor))

    def _like(self, branch: str, *, by: str | None = None) -> Session:
        session = type(self)(self.desk, self.chat_id, branch=branch)
        session._by = self._by if by is None else by
        return session

    async def _check_subject(self) -> None:
        """Errors: `Conflict` if a chat is opened for another subject than it was made for."""
        if self._own is None:
            return
        held = await chat_key(self.store, self.desk.id, self.chat_id)
        if held is None or held.key_id != self._own.key_id:
            raise Conflict(
                f"chat {self.chat_id!r} has another subject, or none",
                expected="the subject that it was made for",
                hint="Begin another chat.",
            )

    # The beginning

    @classmethod
    async def open(
        cls,
        kernel: Any,
        chat_id: str,
        *,
        tenant: Any = None,
        branch: str = MAIN,
        session_id: str | None = None,
        profile: Any = UNSET,
        model: Any = UNSET,
        user: Any = UNSET,
        char: Any = UNSET,
        group: object = UNSET,
        speaks: object = UNSET,
        system: Any = UNSET,
        note: Any = UNSET,
        lorebooks: Any = UNSET,
        greetings: Any = None,
        history_max: Any = UNSET,
        deadline_s: Any = UNSET,
        principal: str = "operator",
        by: str = "",
        subject: str = "",
        **params: Any,
    ) -> Session:
        """The chat of that id, made if there is none; then a `model` is needed.

        `profile`: an `OperationProfile` (it is saved first), the id or ref of a stored one, the name of a
        shipped one, or None for plain main calls. `user`, `char`: a name, or JSON with a name. `group`:
        several characters, each as `char`; `speaks`: `list`, `mention`, `talkativeness`, `model`. `note`: the
        author's note, a text or `{prompt, depth, role}`; `depth` counts the messages after it. `lorebooks`:
        refs of artifacts. `greetings`: texts with which the character may begin, only for a new chat.
        `params` are those of the main call. `principal`: in whose name the chat reads and writes artifacts,
        only for a new chat. `by`: who acts. `subject`: whom the chat is about; all of it is erased with that.
        What is given for a chat that exists changes its settings from now on.
        Units:  `deadline_s` bounds each run. `history_max` counts messages.
        Errors: `InvalidRequest`, `UnknownModel`, `MissingKey`, `NotFound`, `InvalidProfile`, `AccessDenied`.
        """
        desk = kernel.for_tenant(tenant) if hasattr(kernel, "for_tenant") else kernel
        await desk.state()
        session = cls(desk, cs.check_chat(chat_id), branch=branch)
        session = session.by(by) if by else session
        wished: dict[str, Any] = {
            "profile": profile,
            "model": model,
            "user": user,
            "char": char,
            "group": group,
            "speaks": speaks,
            "system": system,
            "note": note,
            "lorebooks": lorebooks,
            "history_max": history_max,
            "deadline_s": deadline_s,
            "params": params or UNSET,
            "principal": principal,
        }
        if subject:
            session._own = await session.store.data_key(desk.id, check_subject(subject))
        if not await session.exists():
            await session._begin(wished, tuple(session._escape_placeholders(cs.checked_greetings(greetings))))
        else:
            await chats.branch_of(session.store, await session.row(), branch)
            await session._check_subject()
            del wished["principal"]
            if any(value is not UNSET for value in wished.values()):
                await session._change(wished)
        if session_id is not None:
            await session._use(session_id)
        return session

    async def _begin(self, wished: dict[str, Any], greetings: tuple[str, ...]) -> None:
        if wished["model"] is UNSET:
            raise NotFound(f"no chat {self.chat_id!r}", hint="To begin one, say which model: model=....")
        if self.branch_name != MAIN:
            raise NotFound(f"a new chat has the branch {MAIN!r} only", got=self.branch_name[:100])
        empty = StoredChatSettings(model="", principal=wished["principal"])
        settings = await self._check_settings(empty, wished)
        blobs: list[Blob] = []
        name = str(settings.char.get("name") or "") if greetings else ""
        opened = ev.ChatOpened(
            settings=await self._keep(settings.encode(), blobs),
            greetings=tuple([await self._keep_json(text, blobs) for text in greetings]),
            speaker=await self._keep_json(name, blobs) if name else None,
        )
        try:
            await self._append(opened, blobs=blobs, seq=0)
        except SequenceConflict:  # somebody opened it meanwhile
            await self._change(wished)

    async def _check_settings(
        self, settings: StoredChatSettings, wished: dict[str, Any]
    ) -> StoredChatSettings:
        """Errors: those of `open`."""
        wished = dict(wished)
        if wished.get("model", UNSET) is not UNSET:
            if not isinstance(wished["model"], str):
                raise InvalidRequest("model", expected="a name", got=repr(wished["model"])[:80])
            self.desk.services.model(wished["model"])  # a missing key is said at the door
        if wished.get("profile", UNSET) is not UNSET:
            wished["profile"] = await cs.profile_setting(self.desk, wished["profile"], by=settings.principal)
        for name in ("user", "char", "group", "system", "note"):
            if wished.get(name, UNSET) is not UNSET:
                wished[name] = self._escape_placeholders(wished[name])
        changed = cs.replace_settings(settings, wished)
        for ref in changed.lorebooks:
            if ref not in settings.lorebooks:
                await read_book(self.desk, ref, by=settings.principal)
        return changed

    async def change(self, **wished: Any) -> None:
        """Change settings of the chat from the next turn on: those of `open`.

        `profile=None` takes the profile away; other names are params of the main call, None takes one back.
        Errors: as for `open`.
        """
        names = (
            "profile",
            "model",
            "user",
            "char",
            "group",
            "speaks",
            "system",
            "note",
            "lorebooks",
            "history_max",
            "deadline_s",
        )
        own = {name: wished.pop(name) for name in names if name in wished}
        await self._change({**own, "params": wished or UNSET})

    async def _change(self, wished: dict[str, Any]) -> None:
        settings = await self.settings()
        changed = await self._check_settings(settings, wished)
        if changed != settings:
            blobs: list[Blob] = []
            data = ev.ChatChanged(settings=await self._keep(changed.encode(), blobs))
            await self._append(data, blobs=blobs)

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
        images, sounds and PDFs that are shown with the words. A turn that fails is a result with `failed`.
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
        opened = self.desk.run(run_id, loop="chat", model=job.model, settings=job.settings())
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
    ) -> AsyncGenerator[Any]:
        """Like `generate`, yielding `RunEvent`s and `main_llm.delta`s as they come, the `TurnResult` last.

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

    async def _stream_run(self, run_id: str, job: TurnJob, *, on_wait: str) -> AsyncGenerator[Any]:
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
        shown = [await self._attach(one, blobs) for one in attachments]
        profile, ref = await cs.profile_of(self.desk, settings)
        is_plain = profile is None or not profile.enabled
        await self._begin_left()
        if turn is not None and (await self.turn()).number != turn:
            await self.rewind(turn)
        for _ in range(ATTEMPTS_MAX):
            seq = await self.seq()
            chat, branch = await self.row(), await self.branch_row()
            head = await tree.node_row(self.store, chat.id, branch.head) if branch.head else None
            run_id = run_name(self.chat_id, chat.runs + 1)
            choice = await self._speaker(settings, trigger, wished=speaker, words=text, run_id=run_id)
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
            try:
                await self._append_asked(job, run_id, settings, seq=seq, shown=blobs)
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
        self, settings: StoredChatSettings, trigger: str, *, wished: str, words: str, run_id: str
    ) -> SpeakerChoice:
        """Choose who replies: in a group by its rule, of a reply that there is who gave it."""
        last, said = "", words
        if settings.group and not wished:
            for one in reversed(await self.turns(limit=5)):
                last, said = one.speaker, said or one.text
                if last:
                    break
            if trigger != "generate" and last in names_of(settings.group):
                wished = last
        return choose(settings.group, settings.speaks, wished=wished, words=said, last=last, seed=run_id)

    async def _append_asked(
        self, job: TurnJob, run_id: str, settings: StoredChatSettings, *, seq: int, shown: Sequence[Blob]
    ) -> None:
        blobs = list(shown)
        is_new, is_wordless = job.trigger == "generate", job.trigger == "generate" and not job.text
        persona = str(settings.user.get("name") or ("User" if settings.group else "")) if job.text else ""
        asked = ev.TurnAsked(
            branch=job.branch,
            run=run_id,
            trigger=job.trigger,
            settings=await self._keep_json(job.settings(), blobs),
            text=await self._keep_json(job.text, blobs) if is_new and job.text else None,
            tokens=estimate_tokens(job.text) if is_new else 0,
            persona=await self._keep_json(persona, blobs) if is_new and persona else None,
            is_wordless=is_wordless,
            process=self.desk.services.process,
        )
        await self._append(asked, blobs=blobs, seq=seq)

    async def _attach(self, content: bytes, blobs: list[Blob]) -> dict[str, Any]:
        """Return the piece of a message that shows a medium. Errors: `InvalidRequest`, `BrokenMedium`."""
        facts = await inspect_medium(content)
        escape = self.desk.services.escape_placeholders
        kept = await keep_medium(self.desk.id, await self._key(), facts, escape=escape)
        blobs += kept.blobs
        return msgspec.to_builtins(kept.medium.part)

    async def _shown_before(self, head: Node | None, trigger: str) -> tuple[dict[str, Any], ...]:
        """Return what the person showed with the words that are replied to once more."""
        if trigger != "regenerate" or head is None:
            return ()
        asked = await tree.node_row(self.store, head.chat, head.turn)
        job = await recorded_job(self.desk, asked.run) if asked.run else None
        return job.attachments if job is not None else ()

    async def _words(self, head: Node | None, trigger: str, text: str) -> str:
        """The words that are replied to."""
        if trigger != "regenerate" or head is None or text:
            return text
        asked = await tree.node_row(self.store, head.chat, head.turn)
        return "".join(await chats.texts(self.store, self.desk.id, asked.user_parts()))

    # Branches and variants

    async def branch(self, name: str | None = None, *, at_turn: int | None = None) -> Session:
        """A new branch that begins with the state after a turn of this one, the newest if none is named.

        Errors: `Conflict` if the name is taken, or the turn is being replied in; `NotFound` for no such turn.
        """
        node = await self._node_of(at_turn)
        for _ in range(ATTEMPTS_MAX):
            seq = await self.seq()
            chosen = name or f"branch-{(await self.row()).branches + 1}"
            cs.check_name(chosen, what="branch")
            made = ev.BranchMade(branch=chosen, origin=self.branch_name, node=node)
            try:
                await self._append(made, seq=seq)
            except SequenceConflict:
                continue
            return self._like(chosen)
        raise self._contention_error()

    async def on(self, branch: str) -> Session:
        """The same chat on another branch that exists. Errors: `NotFound`."""
        await chats.branch_of(self.store, await self.row(), branch)
        return self._like(branch)

    async def select_variant(self, turn: int, variant: int) -> None:
        """Go on from a variant of a turn, with its state, where the conversation after it went last.

        Errors: `NotFound`; `Conflict` while a run of the branch has not ended.
        """
        await self._append_with_retry(lambda: self._selection(turn, variant))

    async def _selection(self, turn: int, variant: int) -> EventData | None:
        chat, branch = await self.row(), await self.branch_row()
        here = await tree.node_at(self.store, chat.id, branch.head, cs.whole(turn, "turn"))
        found = await tree.variant_row(self.store, here, cs.whole(variant, "variant"))
        if found.node == here.node:
            return None
        node = await tree.newest_below(self.store, chat.id, found.node)
        return ev.VariantSelected(branch=branch.name, node=node)

    async def rewind(self, turn: int) -> None:
        """Go on from an earlier turn; what came after it is kept beside it. 0 is before the first turn.

        Errors: `NotFound`; `Conflict` while a run of the branch has not ended.
        """

        async def choose() -> EventData:
            return ev.BranchRewound(branch=self.branch_name, node=await self._node_of(turn))

        await self._append_with_retry(choose)

    # Sessions of the profile

    async def reset(self, session_id: str | None = None) -> str:
        """Begin a new, empty session of the profile on this branch; its id. The old values stay, hidden.

        Errors: `Conflict` if there is one of this id already, or the chat has no profile.
        """
        profile = await self.need_profile()
        known = {one["session_id"] for one in await self.sessions()}
        if session_id is None:
            number = len(known) + 1
            while f"s{number}" in known:
                number += 1
            session_id = f"s{number}"
        cs.check_name(session_id, what="session")
        if session_id in known:
            raise Conflict(
                f"there is a session {session_id!r} already", hint="session.reopen() goes on with it."
            )
        await self._set_session(profile.profile_id, session_id, profile.session_id)
        return session_id

    async def reopen(self, session_id: str) -> None:
        """Go on with an earlier session of the profile, and its state. Errors: `NotFound`."""
        profile = await self.need_profile()
        cs.check_name(session_id, what="session")
        known = [one["session_id"] for one in await self.sessions()]
        if session_id not in known:
            raise NotFound(
                f"no session {session_id!r}",
                expected=", ".join(known[:20]),
                hint="session.reset(id) begins one.",
            )
        await self._set_session(profile.profile_id, session_id, profile.session_id)

    async def _use(self, session_id: str) -> None:
        """Work with this session from now on, whether or not there is one yet."""
        profile = await self.need_profile()
        cs.check_name(session_id, what="session")
        if await self.session_id(profile) != session_id:
            await self._set_session(profile.profile_id, session_id, profile.session_id)

    async def _set_session(self, profile_id: str, session_id: str, standard: str) -> None:
        await self._append(
            ev.SessionSet(
                branch=self.branch_name, profile_id=profile_id, session_id=session_id, default=standard
            )
        )

    # Files and turns from elsewhere

    async def import_file(self, source: Source, *, name: str = "", as_member: bool = False) -> ForeignFile:
        """Take a file of another program into the chat: a card, a lorebook, a persona, a preset, or turns.

        `source`: a path, or the bytes of a file that is called `name`. A character takes the place of the one
        there is, or joins a group; `as_member` makes a group of both. Turns are added at the end of the
        branch. What is not followed is in `warnings`.
        Errors: `InvalidImport` that says what is wrong; `NotFound` for no such file; `AccessDenied`;
        `Conflict` while a run of the branch has not ended.
        """
        from artelier.chat.foreign_files import read_foreign_file

        now = await self.settings()
        called = name or ("" if isinstance(source, bytes | bytearray) else str(source))
        user = str(now.user.get("name") or "User")
        found = await read_foreign_file(self.desk, source, name=called, by=now.principal, user=user)
        if changes := found.changes(now, as_member=as_member):
            await self.change(**changes)
        await self.import_turns(list(found.turns))
        return found

    async def import_turns(self, turns: list[dict[str, Any]]) -> int:
        """Add turns of another conversation at the end of the branch, as data; how many there were.

        Each is `{user: text or None, variants: [text], selected: index, hidden: [role], persona: name,
        speaker: name}`; the last four may be left out.
        Errors: `InvalidRequest`; `Conflict` while a run of the branch has not ended.
        """
        from artelier.chat.chat_interchange import batches

        for page in batches(turns):
            blobs: list[Blob] = []
            listed = [await self._import_turn(turn, blobs) for turn in page]
            data = ev.TurnsImported(branch=self.branch_name, turns=tuple(listed))
            await self._append(data, blobs=blobs)
        return len(turns)

    async def _import_turn(self, turn: Any, blobs: list[Blob]) -> ev.ImportedTurn:
        texts = [turn.user or "", turn.variants[turn.selected] if turn.variants else ""]
        return ev.ImportedTurn(
            user=None
            if turn.user is None
            else await self._keep_json(self._escape_placeholders(turn.user), blobs),
            variants=tuple(
                [await self._keep_json(text, blobs) for text in self._escape_placeholders(turn.variants)]
            ),
            selected=turn.selected,
            hidden=turn.hidden,
            persona=await self._keep_json(turn.persona, blobs) if turn.persona else None,
            speaker=await self._keep_json(turn.speaker, blobs) if turn.speaker else None,
            tokens=sum(map(estimate_tokens, texts)),
        )


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
        await Session(desk, one.chat, branch=one.branch).resume(on_wait=on_wait)
        return True
    return False
