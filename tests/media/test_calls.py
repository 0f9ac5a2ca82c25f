"""A model call with media: bounded, granted, sent through the adapter's loader, and replayed."""

from __future__ import annotations

import asyncio
import re
import sqlite3
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Kernel, Limits, Policy, Tenant
from artelier.errors import (
    InvalidRequest,
    MediaNotTaken,
    ModelRefusedCall,
    NotFound,
    NotGranted,
    PriceUnknown,
)
from artelier.kernel import events as ev
from artelier.kernel.queries.tenants import received_of
from artelier.log import blob_name
from artelier.ports.media import MediaRules, media_in
from artelier.ports.model import Part, Price
from artelier.testing import ScriptedMediaModel, ScriptedModel
from artelier.tokens.estimate import IMAGES, PDFS
from tests.kernel.stage import events, open_kernel, play
from tests.media.samples import pdf, png

SEES = MediaRules(types=IMAGES | PDFS, bound=lambda medium: 1_000)
BLIND_BOUND = MediaRules(types=IMAGES)


def show(*parts: Part, text: str = "What is this?") -> list[Any]:
    return [{"role": "user", "content": [{"type": "text", "text": text}, *map(msgspec.to_builtins, parts)]}]


async def ask(run: Any, *contents: bytes, **more: Any) -> str:
    parts = [await run.attach(content) for content in contents]
    return (await run.step_model(model="m", messages=show(*parts), **more)).text


def test_a_model_is_given_the_bytes_and_the_log_names_them(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["a picture"], rules=SEES)

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                assert await ask(run, png(3, 4), key="k") == "a picture"
            runs = kernel.for_tenant()
            (shown,) = media_in((await runs.render("r", "k")).messages)
            assert (shown.media_type, shown.pixels, shown.size_bytes) == ("image/png", (3, 4), len(png(3, 4)))
            assert await runs.content(shown.blob) is not None
            async with kernel.run("r") as run:  # a replay asks nobody
                assert await ask(run, png(3, 4), key="k") == "a picture"
            assert kernel.verify().ok

    play(main())

    assert model.media == [(png(3, 4),)]
    (request,) = model.requests
    assert b"iVBOR" not in request.canonical()


def test_a_plain_port_refuses_before_the_call_and_nothing_is_lost(tmp_path: Path) -> None:
    plain, seeing = ScriptedModel(["never"]), ScriptedMediaModel(["seen"], rules=SEES)

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"m": plain, "s": seeing}) as kernel:
            async with kernel.run("r") as run:
                part = await run.attach(png())
                talk = run.conversation()
                talk.append(show(part)[0])
                with pytest.raises(MediaNotTaken, match="openai:m takes no image/png"):
                    await run.step_model(model="m", messages=talk, key="k")
                result = await run.step_model(model="s", messages=talk, key="k2")
                assert result.text == "seen"
            kinds = [one.kind for one in await events(kernel, "r")]
            assert kinds.count("model.requested") == 1

    play(main())

    assert plain.requests == []


def test_a_fallback_that_cannot_see_says_why_it_was_to_answer(tmp_path: Path) -> None:
    first, second = ScriptedMediaModel([ModelRefusedCall("no quota")], rules=SEES), ScriptedModel([])

    async def main() -> None:
        with Kernel.open(tmp_path / "s.db", models={"a": first, "b": second}) as kernel:
            async with kernel.run("r") as run:
                part = await run.attach(png())
                with pytest.raises(
                    MediaNotTaken, match=r"openai:b takes no image/png.*since a failed: no quota"
                ):
                    await run.step_model(models=["a", "b"], messages=show(part), key="k")
            failed = [one.decode() for one in await events(kernel, "r") if one.kind == "model.failed"]
            assert [one.code for one in failed] == ["model_refused_call"]

    play(main())


def test_the_bound_of_a_medium_is_held_and_settled(tmp_path: Path) -> None:
    price = Price(input=Decimal(1_000), output=Decimal(0))  # 1,000 micro-dollars a token
    model = ScriptedMediaModel(["seen"], rules=SEES, price=price)

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r", tenant=Tenant("t", budget_usd="50")) as run:
                await ask(run, png(), key="k")
            requested = [
                one.decode() for one in await events(kernel, tenant="t") if one.kind == "model.requested"
            ]
            rendered = await kernel.for_tenant("t").render("r", "k")
            held = requested[0].postings[0].amount
            assert held == (len(rendered.canonical()) + 768 + 1_000) * 1_000

    play(main())


@pytest.mark.parametrize(
    ("limits", "is_refused"), [(Limits(usd="1"), True), (Limits(tokens=10**6), True), (None, False)]
)
def test_an_unknown_bound_is_refused_under_a_limit(
    tmp_path: Path, limits: Limits | None, is_refused: bool
) -> None:
    model = ScriptedMediaModel(["seen"], rules=BLIND_BOUND, price=Price(input=Decimal(1)))

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r", limits=limits) as run:
                if not is_refused:
                    assert await ask(run, png()) == "seen"
                    return
                with pytest.raises(PriceUnknown, match="image/png at most"):
                    await ask(run, png())

    play(main())


@pytest.mark.parametrize("grants", [{"tools:*"}, {"tools:*", "media:send"}])
def test_under_pii_a_medium_needs_its_grant_and_a_pdf_goes_as_scrubbed_text(
    tmp_path: Path, grants: set[str]
) -> None:
    may_send = "media:send" in grants
    model = ScriptedMediaModel(["one", "two"], rules=SEES)
    paper = pdf("Write to anna.smith@example.org today")

    async def main() -> None:
        policy = Policy(pii=True, backoff_s=0)
        environ = {"ARTELIER_VAULT_KEY": "k" * 32}
        with open_kernel(tmp_path, model, policy=policy, environ=environ) as kernel:
            async with kernel.run("r", tenant=Tenant("t", grants=grants)) as run:
                await ask(run, paper, key="pdf")
                if may_send:
                    await ask(run, png(), key="image")
                    return
                with pytest.raises(NotGranted, match="media:send"):
                    await ask(run, png(), key="image")
            told = [one.decode() for one in await events(kernel, tenant="t")]
            (done,) = [one for one in told if isinstance(one, ev.ModelCompleted)]
            assert done.not_sent == ("application/pdf (its text was sent)",)

    play(main())

    text = model.requests[0].messages[0].text
    if may_send:
        assert model.media == [(paper,), (png(),)]
    else:
        assert model.media == []
        assert "anna.smith" not in text and "<EMAIL" in text and "<data source=" in text


def test_a_pdf_goes_as_text_where_the_model_reads_no_pdf_and_a_scan_is_refused(tmp_path: Path) -> None:
    model = ScriptedModel(["read"])

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r", limits=Limits(tokens=10**6)) as run:
                assert await ask(run, pdf("Revenue rose"), key="k") == "read"
                with pytest.raises(MediaNotTaken, match="no text that could be sent instead"):
                    await ask(run, pdf(""))

    play(main())

    assert "Revenue rose" in model.requests[0].messages[0].text


@pytest.mark.parametrize(
    ("rules", "contents", "why"),
    [
        (MediaRules(types=IMAGES, bytes_max={"image": 60}), [png(200, 200)], "60 bytes at most"),
        (MediaRules(types=IMAGES, side_pixels_max=100), [png(101, 1)], "100 pixels a side"),
        (MediaRules(types=PDFS, pages_max=2), [pdf("a", "b"), pdf("c")], "too many pages"),
        (MediaRules(types=IMAGES, count_max=1), [png(), png(shade=1)], "too many media"),
    ],
)
def test_what_a_provider_would_refuse_is_refused_before_it_is_asked(
    tmp_path: Path, rules: MediaRules, contents: list[bytes], why: str
) -> None:
    model = ScriptedMediaModel([], rules=rules)

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(InvalidRequest, match=why):
                    await ask(run, *contents)

    play(main())


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"blob": "b:" + "A" * 43, "media_type": "image/png", "size_bytes": 9}, NotFound),
        ({"blob": "x", "media_type": "image/png", "size_bytes": 9}, InvalidRequest),
        ({"blob": "b:" + "A" * 43, "media_type": "text/html", "size_bytes": 9}, InvalidRequest),
        ({"blob": "b:" + "A" * 43, "media_type": "image/png", "size_bytes": "9"}, InvalidRequest),
        ({}, InvalidRequest),
        (None, InvalidRequest),
    ],
)
def test_a_part_that_names_nothing_is_refused(tmp_path: Path, data: Any, error: type[Exception]) -> None:
    model = ScriptedMediaModel([], rules=SEES)

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                with pytest.raises(error):
                    await run.step_model(model="m", messages=show(Part(type="media", data=data)))

    play(main())


@pytest.mark.corrupts
def test_garbage_export_import_and_verify_know_what_messages_show(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["seen"], rules=SEES)

    async def main() -> None:
        (tmp_path / "one").mkdir()
        (tmp_path / "two").mkdir()
        with open_kernel(tmp_path / "one", model) as kernel:
            async with kernel.run("r") as run:
                part = await run.attach(png(9, 9))
                talk = run.conversation()
                talk.append(show(part)[0])
                await run.step_model(model="m", messages=talk, key="k")
            assert (await kernel.collect()).blobs == 0
            await kernel.for_tenant().export("r", tmp_path / "r.artelier")
        with open_kernel(tmp_path / "two") as kernel:
            await kernel.for_tenant().import_(tmp_path / "r.artelier")
            runs = kernel.for_tenant()
            (shown,) = media_in((await runs.render("r", "k")).messages)
            assert await runs.services.store.blob(runs.id, blob_name(shown.blob)) == png(9, 9)
            assert kernel.verify().ok
            with closing(sqlite3.connect(tmp_path / "two" / "s.db")) as db, db:
                db.execute("DELETE FROM blobs WHERE name = ?", (blob_name(shown.blob),))
            report = kernel.verify()
            assert any("show a missing medium" in one for one in report.findings)

    play(main())


def test_an_erased_subject_takes_its_media_along(tmp_path: Path) -> None:
    model = ScriptedMediaModel(["seen"], rules=SEES)

    async def main() -> None:
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r", subject="customer-17") as run:
                await ask(run, png(9, 9), key="k")
            await runs.erase(subject="customer-17")
            assert png(9, 9) not in (tmp_path / "s.db").read_bytes()
            assert kernel.verify().ok

    play(main())


def test_a_killed_run_goes_on_with_what_it_had_attached(tmp_path: Path) -> None:
    asked = asyncio.Event()

    async def hang(request: Any) -> str:
        asked.set()
        await asyncio.sleep(60)
        return "late"

    broken = ScriptedMediaModel([hang], rules=SEES)
    model = ScriptedMediaModel(["seen"], rules=SEES)

    async def main() -> None:
        with open_kernel(tmp_path, broken) as kernel:

            async def work() -> None:
                async with kernel.run("r") as run:
                    await ask(run, pdf("page"), key="k")

            task = asyncio.ensure_future(work())
            await asked.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        with open_kernel(tmp_path, model) as kernel:
            async with kernel.run("r") as run:
                assert await ask(run, pdf("page"), key="k") == "seen"

    play(main())

    assert len(model.media) == 1


def test_a_pdf_cannot_name_the_values_of_others(tmp_path: Path) -> None:
    """What only looks like a placeholder in it is none: no tool is given the value behind it."""
    model = ScriptedMediaModel(["ok"], rules=SEES)
    made: list[str] = []

    async def main() -> None:
        policy = Policy(pii=True, backoff_s=0)
        environ = {"ARTELIER_VAULT_KEY": "k" * 32}
        with open_kernel(tmp_path, model, policy=policy, environ=environ) as kernel:
            runs = kernel.for_tenant()
            async with kernel.run("one") as run:
                part = await run.attach(pdf("anna.smith@example.org"))
                text = await run.core.load(part.data["text"])
                made.extend(re.findall("<EMAIL_[A-Z2-7]+>", text.decode()))
            async with kernel.run("two") as run:
                await ask(run, pdf(f"Write to {made[0]}"), key="k")
                assert not received_of(runs.services.store, runs.id, "two", made[:1])

    play(main())

    assert made and made[0] not in model.requests[0].messages[0].text
