"""What the tests of the rules stand on: profiles in few words, chats on them, and questions to their runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from artelier import Kernel, ModelRequest, OperationProfile, Session
from artelier.errors import NotFound
from artelier.kernel.queries.content import blob_json
from artelier.operations import events as ev
from artelier.testing import ManualClock, ScriptedModel
from tests.kernel.stage import EAGER, events
from tests.operations.chats import echo, play, words

__all__ = [
    "AFTER",
    "BEFORE",
    "Stage",
    "after",
    "asks",
    "before",
    "echo",
    "flags",
    "insert",
    "keep",
    "op",
    "play",
    "profile",
    "stage_test",
    "started",
    "words",
]

Data = dict[str, Any]
Answer = Callable[[ModelRequest], Any]

BEFORE = "before_main_llm"
AFTER = "after_main_llm"
SYSTEM = "You are Assistant, in a conversation with User."
"""The system prompt of a chat that says nothing of it."""
BROKEN = "{{ nobody }}"
"""A template that fails: the name has no value."""


def keep(tag: str, usage: str = "prompt+ui", **more: Any) -> Data:
    return {"type": "artifact.upsert", "tag": tag, "usage": usage, **more}


def insert(text: str | None = None, **more: Any) -> Data:
    return {"type": "prompt.insert_after_last_user", "text": text, **more}


_PARAMS = frozenset(("output", "strict", "timeout_s"))


def op(id_: str, text: str = "", *effects: Data, **usage: Any) -> Data:
    """A template before the main call; its text is its id if none is given."""
    params = {name: usage.pop(name) for name in _PARAMS & set(usage)}
    return {
        "operation_id": id_,
        "kind": "template",
        "order": 1,
        "params": {"template": text or id_, "effects": list(effects), **params},
        **usage,
    }


def before(id_: str, text: str = "", *effects: Data, **usage: Any) -> Data:
    return op(id_, text, *effects, **usage)


def after(id_: str, text: str = "", *effects: Data, **usage: Any) -> Data:
    return op(id_, text, *effects, hooks=[AFTER], **usage)


def asks(id_: str, prompt: str, *effects: Data, params: Data | None = None, **usage: Any) -> Data:
    """A question to a model."""
    given = {"prompt": prompt, "retries": 0, "effects": list(effects), **(params or {})}
    return {"operation_id": id_, "kind": "llm", "order": 1, "params": given, **usage}


def flags(id_: str, template: str, *names: str, **usage: Any) -> Data:
    """A guard by template."""
    params = {"output_contract": list(names) or ["yes"], "template": template}
    return {"operation_id": id_, "kind": "guard", "order": 0, "params": params, **usage}


def profile(*operations: Data, **fields: Any) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": list(operations), **fields})


class Stage:
    """A store with one model `m` that answers by a function, and its default tenant."""

    def __init__(self, folder: Path, answer: Answer = echo, *, name: str = "state", **more: Any) -> None:
        self.model: ScriptedModel = more.pop("model", None) or ScriptedModel(answer)
        self.clock: Any = more.setdefault("clock", ManualClock())
        more.setdefault("policy", EAGER)
        path = folder / f"{name}.db"
        self.kernel = Kernel.open(path, models={"m": self.model}, environ={}, **more)

    async def chat(self, used: OperationProfile | None = None, **more: Any) -> Session:
        more = {"model": "m", **more}
        return await Session.open(self.kernel, more.pop("chat", "c"), profile=used, **more)

    # What was asked

    @property
    def main(self) -> list[ModelRequest]:
        """Main calls: questions of operations begin with `aux`."""
        return [one for one in self.model.requests if not is_aux(one)]

    @property
    def auxiliary(self) -> list[ModelRequest]:
        return [one for one in self.model.requests if is_aux(one)]

    def prompt(self, index: int = -1) -> list[tuple[str, str]]:
        """A main call's messages: `(role, text)`."""
        return [(one.role, one.text) for one in self.main[index].messages]

    # What a run recorded

    async def of(self, run_id: str, kind: type[Any]) -> list[Any]:
        found = await events(self.kernel, run_id)
        return [one.decode() for one in found if one.kind == kind.KIND]

    async def finished(self, run_id: str) -> dict[str, ev.OperationFinished]:
        """How each operation ended, in that order."""
        return {one.operation_id: one for one in await self.of(run_id, ev.OperationFinished)}

    async def ends(self, run_id: str) -> dict[str, str]:
        """Status of each operation with its reason or code."""
        return {
            id_: f"{one.status}:{one.reason or one.code}".removesuffix(":")
            for id_, one in (await self.finished(run_id)).items()
        }

    async def reports(self, run_id: str, hook: str = "") -> list[ev.EffectReport]:
        """Effects in the order of commit."""
        commits = await self.of(run_id, ev.CommitReported)
        return [one for commit in commits if hook in ("", commit.hook) for one in commit.reports]

    async def kinds(self, run_id: str) -> list[str]:
        """What was recorded, with its phase or operation."""
        told: list[str] = []
        for one in await events(self.kernel, run_id):
            data = one.decode()
            note = getattr(data, "phase", "") or getattr(data, "operation_id", "")
            told.append(f"{one.kind} {note}".strip())
        return told

    async def json(self, ref: Any) -> Any:
        return await blob_json(self.kernel.for_tenant().services, "default", ref)

    async def values(self, session: Session) -> dict[str, Any]:
        """All persisted artifacts of the session."""
        return {tag: one["value"] for tag, one in (await session.arts(internal=True)).items()}


def is_aux(request: ModelRequest) -> bool:
    return request.messages[-1].text.startswith("aux")


def stage_test(
    scenario: Callable[[Stage], Awaitable[None]], answer: Answer = echo, **more: Any
) -> Callable[[Path], None]:
    """A test that is a scenario on a stage of its own."""

    def test(tmp_path: Path) -> None:
        async def run() -> None:
            stage = Stage(tmp_path, answer, **more)
            with stage.kernel:
                await scenario(stage)
                await stage.kernel.aclose()

        play(run())

    test.__doc__ = scenario.__doc__
    return test


async def started(session: Session, fact: Callable[[Any], bool]) -> str:
    """The id of the branch's newest run, once it goes on and has an event of which `fact` holds."""
    while True:
        run_id = (await session.branch_row()).run
        try:
            seen = await session.events(run_id, limit=1_000) if run_id else []
            if any(map(fact, seen)) and seen[-1].type != "run.finished":
                return run_id
        except NotFound:
            pass
        await asyncio.sleep(0.005)
