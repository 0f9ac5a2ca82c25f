"""The evening of a writer in Python, the terminal and over HTTP leaves the same chat and the same prompts."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from artelier import Kernel, Session
from artelier.chat.conversation_files import export_jsonl
from artelier_offline import OfflineModel
from tests.cli.conftest import Shell, shell
from tests.end_to_end.evening import (
    CHAT,
    EVENING,
    Action,
    differences,
    remains,
    same_dice,
    spoken,
    write_files,
)
from tests.server.house import House, house, until

__all__ = ["shell"]
pytestmark = pytest.mark.slow


class InPython:
    """The evening through `Session`."""

    def __init__(self, kernel: Kernel, files: Path) -> None:
        self.kernel, self.files = kernel, files
        self.session = Session(kernel.for_tenant("default"), CHAT, branch="main")
        self.saved = b""

    async def play(self, action: Action) -> None:
        await getattr(self, action.verb)(**action.with_)

    async def begin(self, profile: str, user: str) -> None:
        self.session = await Session.open(self.kernel, CHAT, model="offline", profile=profile, user=user)

    async def take(self, file: str, as_member: bool = False) -> None:
        await self.session.import_file(self.files / file, as_member=as_member)

    async def set(self, name: str, value: object) -> None:
        await self.session.change(**{name: value})

    async def note(self, text: str) -> None:
        await self.session.change(note=text)

    async def rule(self, rule: str) -> None:
        await self.session.change(speaks=rule)

    async def profile(self, name: str | None) -> None:
        await self.session.change(profile=name)

    async def say(self, text: str) -> None:
        assert (await self.session.generate(text)).status == "completed"

    async def regenerate(self, turn: int | None = None) -> None:
        await self.session.regenerate()

    async def rerun(self, turn: int, text: str) -> None:
        await self.session.regenerate(text, turn=turn)

    async def speak(self, name: str = "") -> None:
        await self.session.speak(name)

    async def select(self, turn: int, variant: int) -> None:
        await self.session.select_variant(turn, variant)

    async def revise(self, turn: int, role: str, text: str) -> None:
        await self.session.revise(text, turn=turn, role=role)

    async def hide(self, turn: int, role: str) -> None:
        await self.session.hide(turn=turn, role=role)

    async def unhide(self, turn: int, role: str) -> None:
        await self.session.hide(turn=turn, role=role, hidden=False)

    async def _quick(self) -> dict[str, str]:
        return {one.label: one.text for one in (await self.session.settings()).quick_replies}

    async def _keep(self, kept: dict[str, str]) -> None:
        await self.session.change(quick_replies=[{"label": one, "text": text} for one, text in kept.items()])

    async def keep_quick(self, label: str, text: str) -> None:
        await self._keep({**await self._quick(), label: text})

    async def forget_quick(self, label: str) -> None:
        await self._keep({one: text for one, text in (await self._quick()).items() if one != label})

    async def quick(self, label: str) -> None:
        await self.say((await self._quick())[label])

    async def impersonate(self) -> None:
        await self.say((await self.session.impersonate()).text)

    async def branch(self, turn: int | None = None) -> None:
        self.session = await self.session.branch(at_turn=turn)

    async def switch(self, branch: str) -> None:
        self.session = await self.session.on(branch)

    async def delete_branch(self, branch: str) -> None:
        await self.session.delete_branch(branch)

    async def delete_turn(self, turn: int) -> None:
        await self.session.delete_turn(turn)

    async def delete_reply(self, turn: int, variant: int) -> None:
        await self.session.delete_variant(turn, variant)

    async def rewind(self, turn: int) -> None:
        await self.session.rewind(turn)

    async def title(self, text: str) -> None:
        await self.session.rename(text)

    async def search(self, words: str) -> None:
        assert await self.session.search(words)

    async def reset(self) -> None:
        await self.session.reset()

    async def reopen(self, session: str) -> None:
        await self.session.reopen(session)

    async def drop_lorebooks(self) -> None:
        await self.session.change(lorebooks=None)

    async def archive(self) -> None:
        await self.session.archive()

    async def unarchive(self) -> None:
        await self.session.archive(False)

    async def publish(self, tag: str) -> None:
        await self.session.publish(tag)

    async def save_turns(self, file: str) -> None:
        self.saved = await export_jsonl(self.session)


setattr(InPython, "continue", lambda self, turn: self.session.continue_())


def typed(action: Action, files: Path) -> str:
    """Return the line that a person types at `artelier chat evening` for an action."""
    given = action.with_
    turn = given.get("turn", "")
    match action.verb:
        case "take":
            return f"/import {files / given['file']}{' member' if given.get('as_member') else ''}"
        case "say":
            return given["text"]
        case "set":
            return f"/set {given['name']} {json.dumps(given['value'])}"
        case "note" | "title":
            return f"/{action.verb} {given['text']}"
        case "regenerate" | "continue" | "impersonate" | "reset" | "archive":
            return f"/{action.verb}{' say' if action.verb == 'impersonate' else ''}"
        case "revise":
            return f"/{'reword' if given['role'] == 'user' else 'edit'} {turn} {given['text']}"
        case "hide" | "unhide":
            return f"/{action.verb} {turn} {given['role']}"
        case "select":
            return f"/select {turn} {given['variant']}"
        case "keep_quick":
            return f'/quick "{given["label"]}" {given["text"]}'
        case "quick":
            return f"/quick {given['label']}"
        case "forget_quick":
            return f'/quick-remove "{given["label"]}"'
        case "branch" | "rewind" | "rerun":
            return f"/{action.verb} {turn} {given.get('text', '')}".rstrip()
        case "switch" | "delete_branch":
            return f"/{action.verb.replace('_', '-')} {given['branch']}"
        case "search":
            return f"/search {given['words']}"
        case "rule":
            return f"/group {given['rule']}"
        case "speak":
            return f"/speak {given.get('name', '')}".rstrip()
        case "delete_turn":
            return f"/delete {turn}"
        case "delete_reply":
            return f"/delete {given['turn']} {given['variant']}"
        case "reopen":
            return f"/reopen {given['session']}"
        case "drop_lorebooks":
            return "/set lorebooks none"
        case "unarchive":
            return "/archive no"
        case "publish":
            return f"/publish {given['tag']}"
        case "profile":
            return f"/profile {given['name'] or 'none'}"
        case "save_turns":
            return f"/export {given['file']}"
        case other:
            raise AssertionError(f"nobody types {other}")


class OverHttp:
    """The evening through `/api/v1`."""

    def __init__(self, home: House, files: Path) -> None:
        self.home, self.files, self.branch_name, self.saved = home, files, "main", b""

    async def _ask(self, method: str, path: str = "", **more: Any) -> Any:
        address = f"/api/v1/sessions{f'/{CHAT}' if path is not None else ''}{path}"
        answer = await self.home.client.request(method, address, **more)
        assert answer.status_code < 300, (path, answer.text)
        return answer

    async def _post(self, path: str, **body: Any) -> Any:
        return (await self._ask("POST", path, json={"branch": self.branch_name, **body})).json()

    async def _turn(self, path: str, **body: Any) -> None:
        started = await self._post(path, **body)

        async def ended() -> bool:
            branches = (await self.shown())["branches"]
            return any(
                one["run_id"] == started["run_id"] and one["status"] == "completed" for one in branches
            )

        await until(ended)

    async def shown(self) -> Any:
        return (await self._ask("GET", params={"branch": self.branch_name})).json()

    async def _change(self, **wish: Any) -> None:
        await self._ask("PATCH", json=wish)

    async def play(self, action: Action) -> None:
        given, verb = dict(action.with_), action.verb
        settings = (await self.shown())["settings"] if verb != "begin" else {}
        kept = settings.get("quick_replies", [])
        match verb:
            case "begin":
                body = {"id": CHAT, "model": "offline", **given}
                answer = await self.home.client.post("/api/v1/sessions", json=body)
                assert answer.status_code == 201, answer.text
            case "take":
                content = (self.files / given["file"]).read_bytes()
                query = {"name": given["file"], "as_member": given.get("as_member", False)}
                await self._ask("POST", "/files", content=content, params=query)
            case "set" if given["name"] == "history_max":
                await self._change(history_max=given["value"])
            case "set":
                await self._change(params={given["name"]: given["value"]})
            case "note":
                await self._change(note=given["text"])
            case "rule":
                await self._change(speaks=given["rule"])
            case "profile":
                await self._change(profile=given["name"])
            case "drop_lorebooks":
                await self._change(lorebooks=[])
            case "keep_quick":
                await self._change(quick_replies=[*kept, given])
            case "forget_quick":
                await self._change(quick_replies=[one for one in kept if one["label"] != given["label"]])
            case "quick":
                await self._turn("/turns", text=next(o["text"] for o in kept if o["label"] == given["label"]))
            case "impersonate":
                await self._turn("/turns", text=(await self._post("/impersonate"))["text"])
            case "say":
                await self._turn("/turns", **given)
            case "regenerate" | "continue":
                await self._turn(f"/{verb}")
            case "rerun":
                await self._turn("/rerun", **given)
            case "speak":
                await self._turn("/speak", speaker=given.get("name", ""))
            case "select" | "rewind" | "revise" | "hide" | "publish":
                await self._post(f"/{verb}", **given)
            case "unhide":
                await self._post("/hide", hidden=False, **given)
            case "branch":
                self.branch_name = (await self._post("/branch", at_turn=given.get("turn")))["branch"]
            case "switch":
                self.branch_name = given["branch"]
            case "delete_branch":
                await self._ask("POST", "/delete-branch", json=given)
            case "delete_turn" | "delete_reply":
                await self._post("/delete", **given)
            case "title" | "archive" | "unarchive":
                wish = {"title": given["text"]} if verb == "title" else {"archived": verb == "archive"}
                await self._ask("POST", "/label", json=wish)
            case "search":
                assert (await self._ask("GET", "/search", params=given)).json()["items"]
            case "reset":
                await self._post("/reset")
            case "reopen":
                await self._post("/reopen", session_id=given["session"])
            case "save_turns":
                query = {"format": "jsonl", "branch": self.branch_name}
                self.saved = (await self._ask("GET", "/export", params=query)).content
            case other:
                raise AssertionError(f"nobody asks {other}")


def in_python(folder: Path) -> tuple[dict[str, Any], bytes]:
    """Play it through `Session`: what is left, and the saved turns."""

    async def scenario() -> tuple[dict[str, Any], bytes]:
        with Kernel.open(folder / "python.db", environ={}) as kernel:
            player = InPython(kernel, write_files(folder / "files"))
            for action in EVENING:
                await player.play(action)
            return await remains(kernel), player.saved

    return asyncio.run(scenario())


def over_http(folder: Path) -> tuple[dict[str, Any], bytes]:
    async def scenario() -> tuple[dict[str, Any], bytes]:
        (folder / "http").mkdir()
        async with house(folder / "http", model=OfflineModel()) as home:  # pyright: ignore[reportArgumentType]
            player = OverHttp(home, write_files(folder / "files"))
            for action in EVENING:
                await player.play(action)
            return await remains(home.kernel), player.saved

    return asyncio.run(scenario())


def in_terminal(
    folder: Path, shell: Shell, type_lines: Callable[[str], None]
) -> tuple[dict[str, Any], bytes]:
    files = write_files(folder / "files")
    first, *rest = EVENING
    type_lines("".join(f"{typed(action, files)}\n" for action in rest))
    options = ("--model", "offline", "--profile", first.with_["profile"], "--user", first.with_["user"])
    ran = shell("chat", CHAT, *options, "--json", "--db", str(folder / "terminal.db"))
    assert ran.code == 0, ran.out[-2_000:] + ran.err

    async def scenario() -> dict[str, Any]:
        with Kernel.open(folder / "terminal.db", environ={}) as kernel:
            return await remains(kernel)

    return asyncio.run(scenario()), (folder / "evening.jsonl").read_bytes()


def test_sixty_actions_leave_the_same_chat_through_every_door(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(EVENING) == 60
    same_dice(monkeypatch)
    left, saved = in_python(tmp_path)

    typed_left, typed_saved = in_terminal(
        tmp_path, shell, lambda lines: monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    )
    found = differences(typed_left, left)
    assert not found, "\n".join(found)
    assert spoken(typed_saved) == spoken(saved)

    asked_left, asked_saved = over_http(tmp_path)
    found = differences(asked_left, left)
    assert not found, "\n".join(found)
    assert spoken(asked_saved) == spoken(saved)
    assert sum(name.startswith("prompt of ") for name in left) >= 15
