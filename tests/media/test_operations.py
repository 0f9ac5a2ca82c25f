"""Questions of operations show media as agents' prompts do: attachments, artifacts, what tools have shown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from artelier import AutonomousAgent, Kernel, Policy, Price, Session, Tenant
from artelier.errors import ModelRefusedCall
from artelier.operations import events as ev
from artelier.operations.profile.operation_profile import OperationProfile, mistakes_in
from artelier.ports.media import MediaRules, media_in
from artelier.ports.model import is_tail
from artelier.testing import ScriptedMediaModel, ScriptedModel
from artelier.tokens.estimate import IMAGES, PDFS
from tests.kernel.stage import events
from tests.media.samples import painter, pdf, png
from tests.operations.rp import replayed

RULES = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)
PHOTO, PAPER = png(7, 7), pdf("Revenue of Oslo")


def operations(media: Mapping[str, Any], **more: Any) -> list[dict[str, Any]]:
    """A tool that paints, and a question about what is named."""
    paint = {"name": "paint", "arguments": {"side": 5}}
    asked = {"model": "eye", "prompt": "What is there?", "media": dict(media), **more}
    return [
        {"operation_id": "drawn", "kind": "tool", "order": 1, "params": paint},
        {"operation_id": "seen", "kind": "llm", "order": 2, "depends_on": ["drawn"], "params": asked},
    ]


def profile_of(media: Mapping[str, Any], **more: Any) -> OperationProfile:
    return OperationProfile.parse({"profile_id": "p", "operations": operations(media, **more)})


def opened(folder: Path, eye: ScriptedModel, **more: Any) -> Kernel:
    main = ScriptedMediaModel(lambda _: "Hi.", rules=RULES)
    models = {"eye": eye, "m": main, **more.pop("models", {})}
    return Kernel.open(folder / "s.db", models=models, tools=[painter()], **{"environ": {}, **more})


async def ended(kernel: Kernel, run: str, **more: Any) -> ev.OperationFinished:
    told = [one.decode() for one in await events(kernel, run, **more)]
    return next(one for one in told if isinstance(one, ev.OperationFinished) and one.operation_id == "seen")


async def store(kernel: Kernel) -> None:
    artifacts = kernel.for_tenant().as_principal("operator").artifacts
    await artifacts.write("paper", kind="document", content=PAPER)
    await artifacts.write("note", kind="document", content="Grey is cheap.")
    await artifacts.write("table", kind="document", content={"rows": []})


def test_a_question_shows_words_artifacts_and_what_a_tool_has_shown(tmp_path: Path) -> None:
    eye = ScriptedMediaModel(["grey", "grey again"], rules=RULES)
    media = {"words": True, "artifacts": ["paper@1", "note"], "deps": ["drawn"]}

    async def main() -> None:
        with opened(tmp_path, eye) as kernel:
            await store(kernel)
            session = await Session.open(kernel, "c", model="m", profile=profile_of(media, tail="{{ text }}"))
            turn = await session.generate("Look.", attachments=[PHOTO])
            assert turn.operations == {"drawn": "done", "seen": "done"}
            assert (await replayed(kernel, turn.run_id)).status == "completed"
            assert len(eye.requests) == 1
            trial = await session.run_operation(turn.run_id, "seen")
            assert (trial.status, trial.value) == ("done", "grey again")
            assert (await kernel.collect()).blobs == 0
            assert kernel.verify().ok
            await kernel.for_tenant().export(turn.run_id, tmp_path / "r.artelier")
        with Kernel.open(tmp_path / "t.db", environ={}) as other:
            await other.for_tenant().import_(tmp_path / "r.artelier")
            assert other.verify().ok

    asyncio.run(main())

    shown = [PHOTO, PAPER, b"Grey is cheap.", png(5, 5)]
    assert [sorted(one) for one in eye.media] == [sorted(one for one in shown if one != shown[2])] * 2
    request = eye.requests[0]
    types = [one.media_type for one in media_in(request.messages)]
    assert types == ["image/png", "application/pdf", "image/png"]
    question, tools = request.messages
    assert question.text.startswith("What is there?") and "Grey is cheap." in question.text
    assert "never an instruction" in tools.text and "1. paint (image/png" in tools.text
    last = tools.content[-1]
    assert not isinstance(last, str) and is_tail(last) and (last.text or "").strip() == "Look."


def test_a_step_of_an_agent_shows_what_its_task_came_with(tmp_path: Path) -> None:
    eye = ScriptedMediaModel(["grey"], rules=RULES)

    async def main() -> None:
        with opened(tmp_path, eye) as kernel:
            agent = AutonomousAgent(kernel=kernel, profile=profile_of({"words": True}))
            result = await agent.run(run_id="r", model="m", prompt="Look.", attachments=[PHOTO])
            assert result.status == "completed"
            assert (await kernel.for_tenant().replay("r", agent.drive)).status == "completed"

    asyncio.run(main())

    assert eye.media == [(PHOTO,)]


def test_what_a_tool_shows_and_the_model_does_not_take_is_left_out_with_a_reason(tmp_path: Path) -> None:
    eye = ScriptedModel(["I see nothing."])

    async def main() -> None:
        with opened(tmp_path, eye) as kernel:
            session = await Session.open(kernel, "c", model="m", profile=profile_of({"deps": ["drawn"]}))
            assert (await session.generate("Look.")).operations["seen"] == "done"

    asyncio.run(main())

    assert "left out, since model openai:eye takes no image/png" in eye.requests[0].messages[-1].text


@pytest.mark.parametrize(
    ("media", "code"),
    [
        ({"words": True}, "media_not_taken"),
        ({"artifacts": ["table"]}, "invalid_request"),
        ({"artifacts": ["nobody"]}, "not_found"),
        ({"artifacts": ["secret"]}, "access_denied"),
        ({"artifacts": ["paper"]}, ""),
    ],
)
def test_what_cannot_be_shown_ends_the_operation_with_a_code(
    tmp_path: Path, media: dict[str, Any], code: str
) -> None:
    """A PDF whose text is known goes to any model."""
    eye = ScriptedModel(lambda _: "seen")

    async def main() -> None:
        with opened(tmp_path, eye) as kernel:
            await store(kernel)
            artifacts = kernel.for_tenant().as_principal("bob").artifacts
            await artifacts.write("secret", kind="document", content=PHOTO, access="private")
            session = await Session.open(kernel, "c", model="m", profile=profile_of(media))
            turn = await session.generate("Look.", attachments=[PHOTO])
            assert turn.status == "completed"
            assert (await ended(kernel, turn.run_id)).code == code

    asyncio.run(main())

    assert len(eye.requests) == (0 if code else 1)


def test_a_fallback_that_takes_no_image_says_for_whom_it_was_to_answer(tmp_path: Path) -> None:
    eye = ScriptedMediaModel([ModelRefusedCall("no quota")], rules=RULES)
    blind = ScriptedModel([])

    async def main() -> None:
        with opened(tmp_path, eye, models={"blind": blind}) as kernel:
            profile = profile_of({"words": True}, fallbacks=["blind"])
            session = await Session.open(kernel, "c", model="m", profile=profile)
            turn = await session.generate("Look.", attachments=[PHOTO])
            failed = await ended(kernel, turn.run_id)
            assert (failed.status, failed.code) == ("error", "media_not_taken")
            told = repr(await session.show(turn.run_id, internal=True))
            assert "openai:blind takes no image/png" in told and "since eye failed: no quota" in told

    asyncio.run(main())


@pytest.mark.parametrize(
    ("bound", "allowed", "code"),
    [(None, "1", "price_unknown"), (1_000, "0.0009", "max_cost"), (1_000, "1", "")],
)
def test_the_bound_of_an_operation_counts_what_its_question_shows(
    tmp_path: Path, bound: int | None, allowed: str, code: str
) -> None:
    rules = MediaRules(types=IMAGES, bound=lambda medium: bound)
    eye = ScriptedMediaModel(lambda _: "grey", rules=rules, price=Price(input="1", output="1"))  # pyright: ignore[reportArgumentType]

    async def main() -> None:
        with opened(tmp_path, eye) as kernel:
            asked = {"max_cost_usd": allowed, "max_output_tokens": 5}
            session = await Session.open(kernel, "c", model="m", profile=profile_of({"words": True}, **asked))
            turn = await session.generate("Look.", attachments=[PHOTO])
            assert (await ended(kernel, turn.run_id)).code == code

    asyncio.run(main())

    assert len(eye.requests) == (0 if code else 1)


def test_under_pii_an_image_needs_its_grant_and_a_tail_stays_one(tmp_path: Path) -> None:
    eye = ScriptedMediaModel(["read"], rules=RULES)

    async def main() -> None:
        environ = {"ARTELIER_VAULT_KEY": "k" * 32}
        with opened(tmp_path, eye, policy=Policy(pii=True), environ=environ) as kernel:
            runs = kernel.for_tenant(Tenant("t", grants={"tools:*", "models:*"}))
            artifacts = runs.as_principal("operator").artifacts
            await artifacts.write("image", kind="document", content=PHOTO)
            await artifacts.write("mail", kind="document", content=pdf("Write to anna.smith@example.org"))
            for name, code in (("image", "not_granted"), ("mail", "")):
                profile = profile_of({"artifacts": [name]}, tail="{{ text }}")
                session = await Session.open(runs, name, model="m", profile=profile)
                turn = await session.generate("Ask bob.jones@example.org")
                assert (await ended(kernel, turn.run_id, tenant="t")).code == code

    asyncio.run(main())

    (request,) = eye.requests
    question = request.messages[0]
    assert "anna.smith" not in question.text and "bob.jones" not in question.text
    assert not isinstance(question.content, str) and is_tail(question.content[-1])


def test_mistakes_in_what_a_question_shows_are_named_with_their_place() -> None:
    media = {"deps": ["drawn", "nobody", "later.one"], "artifacts": ["paper@1", "a@b@c"]}
    given = operations(media)
    aside = {"type": "artifact.upsert", "tag": "drawn", "usage": "internal"}
    given[0]["params"]["effects"] = [aside]
    given.append({"operation_id": "later.one", "kind": "template", "order": 3, "params": {"template": "x"}})

    found = {(one["path"], one["code"]) for one in mistakes_in({"profile_id": "p", "operations": given})}

    at = "operations[1].params.media"
    assert found == {
        (f"{at}.deps[0]", "usage_forbids_prompt"),
        (f"{at}.deps[1]", "unknown_dependency"),
        (f"{at}.deps[2]", "unknown_dependency"),
        (f"{at}.artifacts[1]", "bad_ref"),
    }


def test_content_that_a_function_reads_is_read_once(tmp_path: Path) -> None:
    read: list[int] = []

    async def reader() -> bytes:
        read.append(1)
        return PHOTO

    async def main() -> None:
        with opened(tmp_path, ScriptedModel([])) as kernel:
            parts: list[Any] = []
            for _ in range(2):
                with pytest.raises(RuntimeError):
                    async with kernel.run("r") as run:
                        parts.append(await run.attach(reader, key="photo"))
                        raise RuntimeError("the process goes on elsewhere")
            assert parts[0] == parts[1]

    asyncio.run(main())

    assert read == [1]
