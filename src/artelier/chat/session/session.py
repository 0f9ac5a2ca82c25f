"""`Session`: the public door of a chat. One branch of it at a time; it holds no truth that the log lacks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from artelier.artifacts.access import check_principal
from artelier.chat.queries import chats, tree
from artelier.chat.queries.chats import chat_key
from artelier.chat.rows import MAIN
from artelier.chat.session import settings as cs
from artelier.chat.session.edits import ATTEMPTS_MAX
from artelier.chat.session.settings import UNSET, StoredChatSettings
from artelier.chat.session.turns import ChatTurns
from artelier.chat.turn.lorebooks import read_book
from artelier.errors import Conflict, InvalidRequest, NotFound, SequenceConflict
from artelier.log import Blob, EventData, blob_name, check_subject
from artelier.operations import events as ev

if TYPE_CHECKING:
    from artelier.chat.conversation_files import ForeignTurn
    from artelier.chat.foreign_files import ExportedFile, ForeignFile
    from artelier.chat.session.chat_reader import Turn
    from artelier.operations.lore.untrusted_files import Source


class Session(ChatTurns):
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
        fallbacks: object = UNSET,
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
        is_new: Any = False,
        **params: Any,
    ) -> Session:
        """The chat of that id, made if there is none; then a `model` is needed.

        `profile`: an `OperationProfile` (it is saved first), the id or ref of a stored one, the name of a
        shipped one, or None for plain main calls. `fallbacks`: models that reply in turn when `model` fails.
        `user`, `char`: a name, or JSON with a name. `group`: several characters, each as `char`; `speaks`:
        `list`, `mention`, `talkativeness`, `model`. `scenario`: of this chat, in place of its characters'.
        `variables`: texts for `{{getvar}}`, by name. `prompts`: the parts of a prompt in their order, each
        `{place, id, text, role, depth, triggers, is_fixed}`. `note`: the author's note, a text or `{prompt,
        depth, role}`; `depth` counts the messages after it. `quick_replies`: a list of `{label, text}`.
        `lorebooks`: refs of artifacts. `preset`: the ref of a file that goes out again. `params`: of the
        main call. For a new chat alone: `greetings`, texts with which the character may begin; `principal`,
        in whose name it reads and writes artifacts. `by`: who acts. `subject`: whom the chat is about; all
        of it is erased with that. What is given for a chat that exists changes its settings; `is_new`
        refuses it.
        Units:  `deadline_s` bounds each run. `history_max` counts messages.
        Errors: `InvalidRequest`, `UnknownModel`, `MissingKey`, `NotFound`, `InvalidProfile`, `AccessDenied`;
        `Conflict` for a chat that is not new.
        """
        desk = kernel.for_tenant(tenant) if hasattr(kernel, "for_tenant") else kernel
        await desk.state()
        session = cls(desk, cs.check_chat(chat_id), branch=branch)
        session = session.by(by) if by else session
        wished: dict[str, Any] = {
            "profile": profile,
            "model": model,
            "fallbacks": fallbacks,
            "user": user,
            "char": char,
            "group": group,
            "speaks": speaks,
            "system": system,
            "note": note,
            "lorebooks": lorebooks,
            "history_max": history_max,
            "deadline_s": deadline_s,
            **{name: params.pop(name) for name in cs.CHANGEABLE if name in params},
            "params": params or UNSET,
            "principal": principal,
        }
        if subject:
            session._own = await session.store.data_key(desk.id, check_subject(subject))
        await session._enter(wished, greetings, is_new=bool(is_new), session_id=session_id)
        return session

    async def _enter(
        self, wished: dict[str, Any], greetings: Any, *, is_new: bool, session_id: str | None
    ) -> None:
        """Begin the chat, or go on with the one there is. Errors: those of `open`."""
        if not await self.exists():
            said = tuple(self._escape_placeholders(cs.checked_greetings(greetings)))
            await self._begin(wished, said, is_new=is_new)
        elif is_new:
            raise self._not_new()
        else:
            await self._go_on(wished)
        if session_id is not None:
            await self._use(session_id)

    async def _go_on(self, wished: dict[str, Any]) -> None:
        """Take what is wished of a chat that exists. Errors: those of `open`."""
        await chats.branch_of(self.store, await self.row(), self.branch_name)
        await self._check_subject()
        del wished["principal"]
        if any(value is not UNSET for value in wished.values()):
            await self._change(wished)

    def _not_new(self) -> Conflict:
        return Conflict(f"there is a chat {self.chat_id} already", hint="Change its settings instead.")

    async def _begin(self, wished: dict[str, Any], greetings: tuple[str, ...], *, is_new: bool) -> None:
        if wished["model"] is UNSET:
            raise NotFound(f"no chat {self.chat_id!r}", hint="To begin one, say which model: model=....")
        if self.branch_name != MAIN:
            raise NotFound(f"a new chat has the branch {MAIN!r} only", got=self.branch_name[:100])
        empty = StoredChatSettings(model="", principal=wished["principal"])
        settings = await self._check_settings(empty, wished)
        blobs: list[Blob] = []
        name = str(settings.char.get("name") or "") if greetings else ""
        own, *keys = await self.store.part_keys(self.desk.id, await self._key(), count=1 + len(greetings))
        said = zip(greetings, keys, strict=True)
        opened = ev.ChatOpened(
            settings=await self._keep(settings.encode(), blobs, key=own),
            greetings=tuple([await self._keep_json(text, blobs, key=key) for text, key in said]),
            speaker=await self._keep_json(name, blobs, key=own) if name else None,
        )
        try:
            await self._append(opened, blobs=blobs, seq=0)
        except SequenceConflict:  # somebody opened it meanwhile
            if is_new:
                raise self._not_new() from None
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
        for name in ("user", "char", "group", "system", "scenario", "variables", "prompts", "note"):
            if wished.get(name, UNSET) is not UNSET:
                wished[name] = self._escape_placeholders(wished[name])
        changed = cs.replace_settings(settings, wished)
        for name in changed.fallbacks if changed.fallbacks != settings.fallbacks else ():
            self.desk.services.model(name)
        for ref in changed.lorebooks:
            if ref not in settings.lorebooks:
                await read_book(self.desk, ref, by=settings.principal)
        return changed

    async def change(self, **wished: Any) -> None:
        """Change settings of the chat from the next turn on: those of `open`.

        `profile=None` takes the profile away; other names are params of the main call, None takes one back.
        Errors: as for `open`.
        """
        own = {name: wished.pop(name) for name in cs.CHANGEABLE if name in wished}
        await self._change({**own, "params": wished or UNSET})

    async def _change(self, wished: dict[str, Any]) -> None:
        settings = await self.settings()
        changed = await self._check_settings(settings, wished)
        if changed != settings:
            blobs: list[Blob] = []
            own = await self.store.part_key_of(self.desk.id, blob_name((await self.row()).settings))
            data = ev.ChatChanged(settings=await self._keep(changed.encode(), blobs, key=own))
            await self._append(data, blobs=blobs)

    # Branches and variants

    async def branch(
        self, name: str | None = None, *, at_turn: int | None = None, at_run: str | None = None
    ) -> Session:
        """A new branch that begins with the state after a turn of this one, the newest if none is named.

        `at_run`: after the reply of a run of the chat instead, also where no branch shows it, as after a
        variant whose turn was deleted.
        Errors: `Conflict` if the name is taken, or the turn is being replied in; `NotFound` for no such turn;
        `InvalidRequest` for a turn and a run.
        """
        if at_turn is not None and at_run is not None:
            raise InvalidRequest(
                "a branch begins at one place",
                expected="`at_turn` or `at_run`",
                got=f"{at_turn} and {at_run!r:.140}",
            )
        node = await self._node_of(at_turn) if at_run is None else await self._node_made_by(at_run)
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

    async def _node_made_by(self, run: str) -> int:
        found = await tree.node_of_run(self.store, (await self.row()).id, run)
        if found is None or found.deleted:
            raise NotFound(f"no reply of run {run[:120]!r} is in this chat", got="deleted" if found else None)
        return found.node

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
        there is, or joins a group; `as_member` makes a group of both. Where nothing was said yet, it greets.
        Turns are added at the end of the branch; a greeting that begins them takes the place of one that
        nobody has answered. What is not followed is in `warnings`.
        Errors: `InvalidImport` that says what is wrong; `NotFound` for no such file; `AccessDenied`;
        `Conflict` while a run of the branch has not ended.
        """
        from artelier.chat.conversation_files import ForeignTurn
        from artelier.chat.foreign_files import ForeignKind, read_foreign_file

        now = await self.settings()
        called = name or ("" if isinstance(source, bytes | bytearray) else str(source))
        user = str(now.user.get("name") or "User")
        found = await read_foreign_file(
            self.desk, source, name=called, by=now.principal, user=user, model=now.model
        )
        if changes := found.changes(now, as_member=as_member):
            await self.change(**changes)
        turns = list(found.turns)
        if found.kind is ForeignKind.CHAT:
            own = {name: getattr(now, name) for name in ("note", "scenario", "variables")}
            left = [
                f"{name}: the chat keeps its own"
                for name, value in own.items()
                if value and found.settings.get(name, value) != value
            ]
            found = replace(found, warnings=(*found.warnings, *left))
        if found.greetings and not (await self.branch_row()).head:
            turns = [ForeignTurn(variants=found.greetings, speaker=found.name)]
        await self.import_turns(await self._behind_greeting(turns))
        return found

    async def _behind_greeting(self, turns: list[ForeignTurn]) -> list[ForeignTurn]:
        """Return the turns that a file adds, so that the conversation has one greeting: its own."""
        from artelier.chat.conversation_files import batches

        so_far = await self.turns(limit=2)
        if len(so_far) != 1 or not turns or turns[0].user is not None or not _is_greeting(so_far[0]):
            return turns
        list(batches(turns))  # what is wrong with the file is said before a word goes
        await self.delete_turn(so_far[0].number)
        return turns

    async def export_file(self, kind: str, *, name: str = "") -> ExportedFile:
        """Return a file for other programs of what the chat has: `kind` is one of `character`, `lorebook`,
        `persona`, `preset`, `chat`.

        `name`: which character of a group, or the ref of a lorebook. A card, a lorebook and a persona are the
        bytes that were taken in, unless what they say was changed in the chat.
        Errors: `InvalidRequest` for another kind; `NotFound` for what the chat does not have; `AccessDenied`.
        """
        from artelier.chat.foreign_files import ForeignKind, export_file

        try:
            wanted = ForeignKind(kind)
        except ValueError:
            raise InvalidRequest(
                "kind of a file", expected=", ".join(ForeignKind), got=repr(kind)[:60]
            ) from None
        return await export_file(self, wanted, name=name)


def _is_greeting(turn: Turn) -> bool:
    """Return True for words that stand before anything a person has said or asked for."""
    return not turn.user and all(not one.run_id for one in turn.variants)
