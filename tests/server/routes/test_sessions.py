"""`/sessions`: chats through HTTP: turns as runs, branches and variants, and what nobody may see."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from artelier import Policy, tool
from artelier.ports.media import ATTACHMENTS_MAX, MediaRules
from artelier.testing import ScriptedMediaModel
from tests.media.samples import png
from tests.operations.profiles import tavern
from tests.server.routes.served import Served, at, echo, good, play, refused, said, serving

SSE = {"accept": "text/event-stream"}


@asynccontextmanager
async def _chat(folder: Path, answer: Any = echo) -> AsyncIterator[Served]:
    """A server with a chat `c` that has state, a feed, and artifacts that are for nobody."""
    async with serving(folder, answer) as served:
        good(await served.ada.post("/profiles", json={"profile": tavern().data()}), 201)
        body = {"id": "c", "model": "m", "profile": "tavern", "greetings": ["Hello"]}
        good(await served.ada.post("/sessions", json=body), 201)
        yield served


def _messages(answer: httpx.Response) -> list[dict[str, Any]]:
    """The data of each server-sent event, with its id."""
    found: list[dict[str, Any]] = []
    for frame in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.splitlines() if ": " in line[:8])
        if "data" in fields:
            found.append({"id": fields.get("id"), **msgspec.json.decode(fields["data"])})
    return found


async def _followed(client: httpx.AsyncClient, run_id: str, **params: Any) -> list[dict[str, Any]]:
    """A run's events, which end with it."""
    answer = await client.get("/sessions/c/events", params={"run_id": run_id, **params}, headers=SSE)
    assert answer.headers["content-type"].startswith("text/event-stream")
    return _messages(answer)


async def _said(client: httpx.AsyncClient, text: str, verb: str = "turns", **more: Any) -> str:
    """Say something, and wait for the end of its run."""
    body = ({"text": text} if text else {}) | more
    run_id = good(await client.post(f"/sessions/c/{verb}", json=body), 202)["run_id"]
    assert (await _followed(client, run_id))[-1]["type"] == "run.finished"
    return run_id


async def _uploaded(client: httpx.AsyncClient, name: str, content: bytes) -> str:
    """Upload a file; the ref of its artifact."""
    (item,) = good(await client.post("/uploads", files={"file": (name, content)}), 201)["items"]
    return f"{item['id']}@{item['version']}"


def test_a_message_shows_artifacts_to_the_model_also_when_the_reply_is_asked_for_again(
    tmp_path: Path,
) -> None:
    rules = MediaRules(types=frozenset({"image/png"}), bound=lambda medium: 1_000)
    model = ScriptedMediaModel(["A square.", "A red square.", "Seven."], rules=rules)

    async def scenario() -> None:
        async with serving(tmp_path, model=model) as served:
            good(await served.ada.post("/sessions", json={"id": "c", "model": "m"}), 201)
            picture = await _uploaded(served.ada, "red.png", png())
            run = await _said(served.ada, "What is this?", attachments=[picture])
            good(await served.ada.get(at("runs", run, "manifest"), params={"step": "main/model"}))
            await _said(served.ada, "", "regenerate")
            assert model.media == [(png(),), (png(),)]
            assert [one.messages[-1].text for one in model.requests] == ["What is this?"] * 2

            note = f"data:text/plain;base64,{b64encode(b'seven lines').decode()}"
            await _said(served.ada, "What does it say?", attachments=[note])
            assert "seven lines" in model.requests[-1].messages[-1].text

            shown = good(await served.vic.get("/sessions/c"))["turns"]
            assert [
                [(one["position"], one["media_type"], one["size_bytes"]) for one in turn["media"]]
                for turn in shown
            ] == [[(1, "image/png", len(png()))], [(1, "text/plain", 11)]]
            seen = await served.vic.get("/sessions/c/turns/1/media/1")
            assert (seen.content, seen.headers["content-type"]) == (png(), "image/png")
            text = await served.vic.get("/sessions/c/turns/2/media/1")
            assert text.content == b"seven lines" and "attachment" in text.headers["content-disposition"]
            for elsewhere in ("1/media/2", "3/media/1", "1/media/0"):
                refused(
                    await served.vic.get(f"/sessions/c/turns/{elsewhere}"), 422 if "/0" in elsewhere else 404
                )
            refused(await served.eve.get("/sessions/c/turns/1/media/1"), 404, "not_found")

            broken = await _uploaded(served.ada, "broken.png", png()[:40])
            large = await _uploaded(served.ada, "large.wav", bytes(12 * 1024 * 1024))
            turns = "/sessions/c/turns"
            for refs, status, code in (
                ([large, large], 422, "invalid_request"),
                ([broken], 422, "broken_medium"),
                (["uploads/gone.png@1"], 404, "not_found"),
                (["no ref!"], 422, "invalid_request"),
                (["https://example.com/a.png"], 422, "invalid_request"),
                (["data:image/png;base64,!"], 422, "invalid_request"),
                ([picture] * (ATTACHMENTS_MAX + 1), 422, "invalid_request"),
            ):
                answer = await served.ada.post(turns, json={"text": "And this?", "attachments": refs})
                assert (answer.status_code, answer.json()["error"]["code"]) == (status, code), answer.text
            shown = good(await served.ada.get("/sessions/c"))
            assert [turn["user"] for turn in shown["turns"]] == ["What is this?", "What does it say?"], (
                "nothing was said"
            )
            good(await served.ada.post("/sessions/c/delete", json={"turn": 1}))
            refused(await served.vic.get("/sessions/c/turns/1/media/1"), 404, "not_found")
            strange = await served.eve.post("/sessions", json={"id": "c", "model": "m"})
            good(strange, 201)
            answer = await served.eve.post(turns, json={"text": "And this?", "attachments": [picture]})
            assert answer.status_code == 404, "another tenant's"

    play(scenario())


def _texts(chat: dict[str, Any]) -> list[tuple[int, str, list[str], int]]:
    return [
        (turn["number"], turn["user"], [one["text"] for one in turn["variants"]], turn["selected"])
        for turn in chat["turns"]
    ]


def test_a_turn_answers_at_once_with_its_run_and_is_there_when_that_has_ended(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            assert await _said(served.ada, "a") == "c/r000001"
            shown = good(await served.ada.get("/sessions/c"))
            assert _texts(shown) == [(0, "", ["Hello"], 1), (1, "a", ["re: a"], 1)]
            assert shown["turns"][1]["variants"][0]["status"] == "done"
            (line,) = good(await served.ada.get("/sessions"))["items"]
            assert (line["id"], line["runs"]) == ("c", 1)
            run = good(await served.ada.get(at("runs", "c/r000001")))
            assert run["status"] == "completed"

    play(scenario())


def test_people_see_their_artifacts_and_never_those_of_prompts_or_nobody(tmp_path: Path) -> None:
    """I9: values of `internal` and `prompt_only` artifacts are on no page of a chat."""

    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            run_id = await _said(served.ada, "a")
            await _said(served.ada, "b")
            answer = await served.ada.get("/sessions/c")
            shown = good(answer)
            assert {one["tag"]: one["is_feed"] for one in shown["panels"]} == {"mood": False, "feed": True}
            assert [one["value"] for one in shown["feeds"][0]["entries"]] == ["b", "a"]
            explained = await served.ada.get("/sessions/c/explain", params={"run_id": run_id})
            assert {one["status"] for one in good(explained)["operations"]} == {"done"}
            page = await served.ada.get("/sessions/c/events", params={"run_id": run_id})
            stream = await served.ada.get("/sessions/c/events", headers=SSE)
            everything = [answer, explained, page, stream]
            for tag in ("secret", "note", "once", "nothing"):
                feed = await served.ada.get(f"/sessions/c/feeds/{tag}")
                published = await served.ada.post("/sessions/c/publish", json={"tag": tag})
                refused(feed, 404, "not_found")
                refused(published, 404, "not_found")
                everything += [feed, published]
            events = await served.ada.get("/events", params={"limit": 1000})
            for one in [*everything, events]:
                assert not any(word in one.text for word in ("SECRET", "NOTE", "ONCE"))

    play(scenario())


def test_variants_branches_and_rewinding_lose_nothing(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            ada = served.ada
            await _said(ada, "a")
            await _said(ada, "", "regenerate")
            assert _texts(good(await ada.get("/sessions/c")))[1][3] == 2
            chosen = good(await ada.post("/sessions/c/select", json={"turn": 1, "variant": 1}))
            assert chosen["turns"][1]["selected"] == 1
            await _said(ada, "", "continue")
            assert good(await ada.get("/sessions/c"))["turns"][1]["variants"][0]["text"] != "re: a"
            await _said(ada, "b")
            back = good(await ada.post("/sessions/c/rewind", json={"turn": 1}))
            assert [turn["number"] for turn in back["turns"]] == [0, 1]
            made = good(await ada.post("/sessions/c/branch", json={"name": "side", "at_turn": 0}), 201)
            assert made == {"branch": "side"}
            side = good(await ada.get("/sessions/c", params={"branch": "side"}))
            assert [turn["number"] for turn in side["turns"]] == [0] and side["panels"] == []
            assert [one["name"] for one in side["branches"]] == ["main", "side"]

    play(scenario())


def test_an_edited_turn_is_said_on_a_branch_of_its_own(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            ada = served.ada
            await _said(ada, "a")
            await _said(ada, "b")
            body = {"turn": 2, "text": "c", "name": "other"}
            started = good(await ada.post("/sessions/c/edit", json=body), 202)
            assert started["branch"] == "other"
            await _followed(ada, started["run_id"], branch="other")
            other = good(await ada.get("/sessions/c", params={"branch": "other"}))
            assert [one[1] for one in _texts(other)] == ["", "a", "c"]
            assert [one[1] for one in _texts(good(await ada.get("/sessions/c")))] == ["", "a", "b"]
            for wrong in ({"turn": 9, "text": "x"}, {"turn": 1, "text": "   "}):
                answer = await ada.post("/sessions/c/edit", json=wrong)
                assert answer.status_code in (404, 422)
            assert len(good(await ada.get("/sessions/c"))["branches"]) == 2

    play(scenario())


def test_events_resume_behind_a_seq_without_gap_or_repetition(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            run_id = await _said(served.ada, "a")
            whole = [one for one in await _followed(served.ada, run_id) if one["id"]]
            types = [one["type"] for one in whole]
            assert types[-1] == "run.finished" and "main_llm.started" in types
            assert types.index("main_llm.started") < types.index("main_llm.finished")
            middle = whole[3]["id"]
            answer = await served.ada.get(
                "/sessions/c/events", params={"run_id": run_id}, headers={**SSE, "Last-Event-ID": middle}
            )
            assert [one for one in _messages(answer) if one["id"]] == whole[4:]
            paged: list[dict[str, Any]] = []
            after = 0
            while True:
                params = {"run_id": run_id, "after": after, "limit": 2}
                page = good(await served.ada.get("/sessions/c/events", params=params))
                if not page["items"]:
                    break
                paged += page["items"]
                after = page["next"]
            assert [one["seq"] for one in paged] == [one["seq"] for one in whole]

    play(scenario())


def test_a_stream_of_a_turn_has_its_run_its_reply_and_its_end(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            answer = await served.ada.post("/sessions/c/turns/stream", json={"text": "a"})
            found = _messages(answer)
            assert found[0] == {"id": None, "type": "run", "run_id": "c/r000001"}
            said = "".join(one["text"] for one in found if one["type"] == "main_llm.delta")
            assert said in ("", "re: a") and found[-1]["type"] == "run.finished"
            assert all(one["id"] is None for one in found if one["type"] == "main_llm.delta")

    play(scenario())


def test_only_one_turn_of_a_branch_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        hold = asyncio.Event()

        async def answer(request: Any) -> str:
            await hold.wait()
            return echo(request)

        async with _chat(tmp_path, answer) as served:
            first = good(await served.ada.post("/sessions/c/turns", json={"text": "a"}), 202)
            refused(await served.ada.post("/sessions/c/turns", json={"text": "b"}), 409, "conflict")
            refused(await served.ada.post("/sessions/c/rewind", json={"turn": 0}), 409, "conflict")
            hold.set()
            await _followed(served.ada, first["run_id"])

    play(scenario())


def test_a_reply_that_is_stopped_leaves_a_chat_that_goes_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def answer(request: Any) -> str:
            if said(request) == "wait":
                asked.set()
                await asyncio.Event().wait()
            return echo(request)

        async with _chat(tmp_path, answer) as served:
            started = good(await served.ada.post("/sessions/c/turns", json={"text": "wait"}), 202)
            await asked.wait()
            stopped = good(await served.ada.post("/sessions/c/stop", json={"note": "enough"}))
            assert stopped["run_id"] == started["run_id"]
            followed = await _followed(served.ada, started["run_id"])
            assert [one["status"] for one in followed if one["type"] == "run.finished"] == ["cancelled"]
            shown = good(await served.ada.get("/sessions/c"))
            assert shown["turns"][1]["variants"][0]["status"] == "aborted"
            await _said(served.ada, "b")

    play(scenario())


def test_a_turn_that_a_server_left_is_finished_by_the_next(tmp_path: Path) -> None:
    async def scenario() -> None:
        asked = asyncio.Event()

        async def never(request: Any) -> str:
            asked.set()
            await asyncio.Event().wait()
            return ""

        async with _chat(tmp_path, never) as served:
            run_id = good(await served.ada.post("/sessions/c/turns", json={"text": "a"}), 202)["run_id"]
            await asked.wait()
        async with serving(tmp_path, has_worker=False) as served:
            assert good(await served.ada.get(at("runs", run_id)))["ended_us"] is None
            assert good(await served.ada.post("/sessions/c/resume", json={}), 202)["run_id"] == run_id
            assert (await _followed(served.ada, run_id))[-1]["status"] == "completed"
            assert _texts(good(await served.ada.get("/sessions/c")))[1] == (1, "a", ["re: a"], 1)

    play(scenario())


def test_settings_change_from_the_next_turn_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            body = {"system": "Be brief.", "user": "Bob", "profile": None, "params": {"temperature": 0.5}}
            told = good(await served.ada.patch("/sessions/c", json=body))
            assert (told["system"], told["user"], told["profile"]) == ("Be brief.", {"name": "Bob"}, "")
            assert told["params"] == {"temperature": 0.5} and told["model"] == "m"
            back = {"params": {"temperature": None}}
            assert good(await served.ada.patch("/sessions/c", json=back))["params"] == {}

    play(scenario())


def test_what_cannot_be_a_chat_is_refused(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            post = served.ada.post
            refused(await post("/sessions", json={"id": "c", "model": "m"}), 409, "conflict")
            refused(await post("/sessions", json={"id": "a/b", "model": "m"}), 422)
            refused(await post("/sessions", json={"model": "nobody:m"}), 422, "unknown_model")
            refused(await post("/sessions", json={"model": "m", "profile": "none"}), 404)
            for more in (
                {"tenant": "other"},
                {"principal": "agent:x"},
                {"params": {"tenant": "x"}},
                {"params": {"principal": "agent:x"}},
                {"char": {"name": ""}},
            ):
                refused(await post("/sessions", json={"model": "m", **more}), 422, "invalid_request")
            refused(await post("/sessions/c/turns", json={"text": "  "}), 422, "invalid_request")
            refused(await post("/sessions/c/turns", json={"text": "a", "branch": "none"}), 404)
            refused(await post("/sessions/none/turns", json={"text": "a"}), 404, "not_found")
            refused(await served.eve.get("/sessions/c"), 404, "not_found")
            assert len(good(await served.ada.get("/sessions"))["items"]) == 1

    play(scenario())


def test_a_chat_shows_no_runs_of_others(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            good(await served.ada.post("/sessions", json={"id": "d", "model": "m"}), 201)
            run_id = await _said(served.ada, "a")
            for path in ("events", "explain"):
                answer = await served.ada.get(f"/sessions/d/{path}", params={"run_id": run_id})
                refused(answer, 404, "not_found")
            refused(await served.ada.get("/sessions/d/events"), 404, "not_found")

    play(scenario())


def test_sessions_of_a_profile_begin_empty_and_are_opened_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            await _said(served.ada, "a")
            now = good(await served.ada.post("/sessions/c/reset", json={"session_id": "s2"}), 201)
            assert now == {"session_id": "s2"}
            shown = good(await served.ada.get("/sessions/c"))
            assert shown["panels"] == [] and len(shown["sessions"]) == 2
            first = next(one["session_id"] for one in shown["sessions"] if not one["is_current"])
            good(await served.ada.post("/sessions/c/reopen", json={"session_id": first}))
            assert good(await served.ada.get("/sessions/c"))["panels"]
            refused(await served.ada.post("/sessions/c/reopen", json={"session_id": "none"}), 404)

    play(scenario())


def test_a_published_value_is_an_artifact(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            await _said(served.ada, "a")
            ref = good(await served.ada.post("/sessions/c/publish", json={"tag": "mood"}), 201)["ref"]
            assert ref == "c/mood@1"
            shown = good(await served.ada.get(at("artifacts", "c/mood")))
            assert shown["provenance"]["run_id"] == "c/r000001"

    play(scenario())


def test_a_chat_is_carried_to_another_tenant(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            await _said(served.ada, "a")
            file = await served.ada.get("/sessions/c/export")
            assert file.headers["content-disposition"].startswith("attachment;")
            done = good(await served.eve.post("/sessions/import", content=file.content), 201)
            assert (done["chat_id"], done["runs"]) == ("c", ["c/r000001"])
            there = good(await served.eve.get("/sessions/c"))
            assert _texts(there) == [(0, "", ["Hello"], 1), (1, "a", ["re: a"], 1)]
            again = await served.eve.post("/sessions/import", content=file.content)
            refused(again, 409, "conflict")
            broken = file.content[:-40] + b"x" * 40
            answer = await served.ada.post("/sessions/import", content=broken)
            refused(answer, 422)
            assert str(tmp_path) not in answer.text and "artelier-" not in answer.text
            refused(await served.ada.get("/sessions/none/export"), 404, "not_found")

    play(scenario())


def test_pages_of_turns_go_back_to_the_first(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            for text in "abc":
                await _said(served.ada, text)
            newest = good(await served.ada.get("/sessions/c", params={"limit": 2}))
            assert [one["number"] for one in newest["turns"]] == [2, 3] and newest["before"] == 2
            older = good(await served.ada.get("/sessions/c", params={"limit": 2, "before": 2}))
            assert [one["number"] for one in older["turns"]] == [0, 1] and older["before"] is None

    play(scenario())


def test_events_of_a_chat_name_the_person(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            await _said(served.ada, "a")
            good(await served.ada.patch("/sessions/c", json={"system": "Be brief."}))
            made = await served.ada.post("/sessions/c/branch", json={"name": "side"})
            good(made, 201)
            good(await served.ada.post("/sessions/c/publish", json={"tag": "mood"}), 201)
            await _said(served.ada, "b", branch="side")
            found = {
                event.kind: event.actor
                async for event in served.kernel.events()
                if event.stream.local in ("session:c", "artifact:c/mood")
            }
            for kind in ("chat.opened", "turn.asked", "chat.changed", "branch.made", "artifact.written"):
                assert found[kind] == "user:ada", kind

    play(scenario())


def test_a_turn_that_asks_a_person_goes_on_when_they_have_answered(tmp_path: Path) -> None:
    """Nobody waits in a request: the turn is given back, and the server's worker takes it up again."""
    sent: list[str] = []

    @tool(side_effect=True, risk="high")
    async def send(text: str) -> str:
        """Send a message."""
        sent.append(text)
        return "sent"

    params = {"name": "send", "arguments": {"text": "hello"}}
    operation = {
        "operation_id": "mail",
        "kind": "tool",
        "hooks": ["before_main_llm"],
        "order": 1,
        "required": True,
        "params": params,
    }

    async def scenario() -> None:
        policy = Policy(approve_risk="high")
        async with serving(tmp_path, tools=[send], policy=policy) as served:
            ada = served.ada
            profile = {"profile": {"profile_id": "mailer", "operations": [operation]}}
            good(await ada.post("/profiles", json=profile), 201)
            body = {"id": "c", "model": "m", "profile": "mailer"}
            good(await ada.post("/sessions", json=body), 201)
            run_id = good(await ada.post("/sessions/c/turns", json={"text": "a"}), 202)["run_id"]
            while not (asked := good(await ada.get("/approvals"))["items"]):
                await asyncio.sleep(0.02)
            assert (asked[0]["run_id"], sent) == (run_id, [])
            answer = {"step": asked[0]["step"]}
            good(await ada.post(at("runs", run_id, "approve"), json=answer))
            events = await _followed(ada, run_id)
            assert events[-1]["status"] == "completed" and sent == ["hello"]
            assert _texts(good(await ada.get("/sessions/c")))[0][2] == ["re: a"]

    play(scenario())


def test_messages_are_revised_hidden_and_deleted_through_http(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            ada = served.ada
            for text in ("a", "b", "c"):
                await _said(ada, text)
            shown = good(await ada.post("/sessions/c/revise", json={"turn": 1, "text": "other"}))
            assert shown["turns"][1]["variants"][0]["text"] == "other"
            shown = good(await ada.post("/sessions/c/hide", json={"turn": 2, "role": "user"}))
            assert [one["is_hidden"] for one in shown["turns"]] == [False, False, True, False]
            gone = good(await ada.post("/sessions/c/delete", json={"turn": 3}))
            assert gone == {
                "turns": 2,
                "derived_runs": ["c/r000003"],
                "erased_runs": ["c/r000003"],
                "unshown_runs": [],
                "derived_artifacts": [],
                "is_erased": True,
                "is_cleaned": True,
            }
            labeled = good(await ada.post("/sessions/c/label", json={"title": "Tavern", "archived": True}))
            assert labeled == {"title": "Tavern", "archived": True}
            (line,) = good(await ada.get("/sessions"))["items"]
            assert (line["title"], line["archived"]) == ("Tavern", True)
            found = good(await ada.get("/sessions/c/search", params={"words": "OTHER"}))
            assert [(one["turn"], one["text"]) for one in found["items"]] == [(1, "other")]
            await _said(ada, "new words", "rerun", turn=1)
            assert _texts(good(await ada.get("/sessions/c")))[-1][1:] == (
                "new words",
                ["other", "re: new words"],
                2,
            )
            refused(await ada.post("/sessions/c/revise", json={"turn": 9, "text": "x"}), 404, "not_found")
            refused(await ada.post("/sessions/c/delete-branch", json={"branch": "main"}), 409, "conflict")
            gone = good(await ada.delete("/sessions/c"))
            assert gone["is_erased"] and gone["is_cleaned"] and "c/r000001" in gone["erased_runs"]
            refused(await ada.get("/sessions/c"), 404, "not_found")

    play(scenario())


def test_drafts_and_quick_replies_come_over_http(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with _chat(tmp_path) as served:
            ada = served.ada
            await _said(ada, "a")
            draft = good(await ada.post("/sessions/c/impersonate", json={}))
            assert draft["run_id"] == "c/draft-000001" and draft["text"]
            kept = [{"label": "Go on", "text": "Tell me more."}]
            changed = good(await ada.patch("/sessions/c", json={"quick_replies": kept}))
            assert changed["quick_replies"] == kept
            shown = good(await ada.get("/sessions/c"))
            assert shown["settings"]["quick_replies"] == kept
            assert len(shown["turns"]) == 2 and shown["turns"][1]["user_tokens"] == 1
            assert shown["turns"][1]["variants"][0]["tokens"] >= 2
            refused(await ada.patch("/sessions/c", json={"quick_replies": [{"label": "x"}]}), 422)
            refused(await served.vic.post("/sessions/c/impersonate", json={}), 403)
            refused(await served.eve.post("/sessions/c/impersonate", json={}), 404)

    play(scenario())


def test_a_chat_that_several_begin_at_once_is_made_by_one(tmp_path: Path) -> None:
    """All were told 201, and the settings of the last held."""

    async def scenario() -> None:
        async with serving(tmp_path) as served:
            bodies = [{"id": "c", "model": "m", "system": name} for name in ("ONE", "TWO", "THREE")]
            found = await asyncio.gather(*(served.ada.post("/sessions", json=body) for body in bodies))
            assert sorted(one.status_code for one in found) == [201, 409, 409]
            made = next(one.json() for one in found if one.status_code == 201)
            shown = good(await served.ada.get("/sessions/c"))
            assert shown["settings"]["system"] == made["settings"]["system"]

    play(scenario())
