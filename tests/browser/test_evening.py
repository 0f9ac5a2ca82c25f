"""The evening of a writer by hand in a browser leaves the chat that it leaves in Python, and its prompts."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from artelier import Kernel
from tests.browser.conftest import Shot, SignIn
from tests.browser.hand import Hand
from tests.browser.inside import inside, offline
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
from tests.end_to_end.test_evening import in_python

pytestmark = pytest.mark.slow


class ByHand:
    """The evening as somebody with a mouse and a keyboard plays it in Mission Control."""

    def __init__(self, page: Page, files: Path) -> None:
        self.page, self.hand, self.files, self.saved = page, Hand(page), files, b""

    def play(self, action: Action) -> None:
        getattr(self, f"do_{action.verb}")(**action.with_)
        self._settled()

    def _settled(self) -> None:
        """Wait until no reply is on its way, for the server and for the page."""
        for _ in range(600):
            branches = self.hand.get("sessions", CHAT)["branches"]
            if all(one["status"] in ("", "completed") for one in branches):
                break
            self.page.wait_for_timeout(50)
        expect(self.page.get_by_role("button", name="Say it").last).to_be_visible()
        self.page.wait_for_timeout(150)

    @property
    def chat(self) -> Locator:
        return self.page.get_by_role("region", name=f"Chat {CHAT}")

    def _turn(self, number: int) -> Locator:
        return self.chat.get_by_role(
            "article", name="Greeting" if number == 0 else f"Turn {number}", exact=True
        )

    def _last(self) -> Locator:
        return self.chat.get_by_role("article").last

    def _button(self, name: str, within: Locator | None = None) -> None:
        (within or self.page).get_by_role("button", name=name, exact=True).click()

    def _menu(self, number: int, item: str) -> None:
        self._button(f"More about turn {number}", self._turn(number))
        self.page.get_by_role("menuitem", name=item, exact=True).click()

    def _setup(self) -> None:
        self.page.get_by_role("tab", name="Set-up").click()

    def _run_again(self, press: Any) -> None:
        """Press what asks for a reply, and wait until the server has begun it."""
        before = self._runs()
        press()
        for _ in range(200):
            if self._runs() != before:
                return
            self.page.wait_for_timeout(50)
        raise AssertionError("no reply was asked for")

    def _runs(self) -> list[str]:
        return [one["run_id"] for one in self.hand.get("sessions", CHAT)["branches"]]

    # What the writer does

    def do_begin(self, profile: str, user: str) -> None:
        main = self.hand.go("Chat")
        main.get_by_role("button", name="New chat").first.click()
        dialog = self.page.get_by_role("dialog")
        dialog.get_by_label("Name of the chat").fill(CHAT)
        dialog.get_by_label("Your name").fill(user)
        dialog.get_by_role("combobox", name="Profile of operations").select_option(value=profile)
        self._button("Begin", dialog)
        expect(self.chat).to_be_visible()

    def do_take(self, file: str, as_member: bool = False) -> None:
        self._setup()
        switch = self.page.get_by_role("switch", name="A character joins the one there is")
        if as_member != switch.is_checked():
            switch.click()
        with self.page.expect_response(re.compile("/files")) as answer:
            self.page.get_by_label("Take in a file: files").set_input_files(self.files / file)
        assert answer.value.ok, answer.value.text()

    def do_set(self, name: str, value: object) -> None:
        self._setup()
        if name == "history_max":
            self.page.get_by_label("Messages that a prompt shows at most").fill(str(value))
            self._store("Store")
        else:
            self.page.get_by_label(name.capitalize(), exact=True).fill(str(value))
            self._store("Store these")

    def _store(self, button: str) -> None:
        with self.page.expect_response(lambda one: one.request.method == "PATCH") as answer:
            self._button(button)
        assert answer.value.ok, answer.value.text()

    def do_note(self, text: str) -> None:
        self._setup()
        self.page.get_by_label("Author's note").fill(text)
        self._store("Store these")

    def do_rule(self, rule: str) -> None:
        self._setup()
        with self.page.expect_response(lambda one: one.request.method == "PATCH"):
            self.page.get_by_role("combobox", name="Who speaks next").select_option(value=rule)

    def do_profile(self, name: str | None) -> None:
        self._setup()
        with self.page.expect_response(lambda one: one.request.method == "PATCH"):
            self.page.get_by_role("combobox", name="Profile of operations").select_option(value=name or "")

    def do_say(self, text: str) -> None:
        self.chat.get_by_role("textbox", name="What you say").fill(text)
        self._run_again(lambda: self.page.keyboard.press("Enter"))

    def do_regenerate(self, turn: int | None = None) -> None:
        self._run_again(lambda: self._button("Reply again", self._last()))

    def do_continue(self, turn: int) -> None:
        self._run_again(lambda: self._button("Continue", self._turn(turn)))

    def do_rerun(self, turn: int, text: str) -> None:
        self._menu(turn, "Run it again …")
        self.page.get_by_label(f"Words to run again turn {turn}").fill(text)
        self._run_again(lambda: self._button("Run it again", self._turn(turn)))

    def do_speak(self, name: str = "") -> None:
        if not name:
            self._run_again(lambda: self._button("Next speaker", self._last()))
            return
        self._last().get_by_role("button", name="Who …").click()
        self._run_again(lambda: self.page.get_by_role("menuitem", name=name, exact=True).click())

    def do_select(self, turn: int, variant: int) -> None:
        bar = self._turn(turn).get_by_role("group", name="Replies")
        for _ in range(20):
            at = int((bar.get_by_role("status").inner_text()).split(" ")[0])
            if at == variant:
                return
            self._button("Next reply" if at < variant else "Previous reply", bar)
            expect(bar.get_by_role("status")).to_have_text(
                re.compile(f"^{at + (1 if at < variant else -1)} ")
            )
        raise AssertionError("the reply is not reached")

    def do_revise(self, turn: int, role: str, text: str) -> None:
        is_own = role == "user"
        self._menu(turn, "Change your words …" if is_own else "Change the reply …")
        self.page.get_by_label(f"{'Your words' if is_own else 'The reply'} of turn {turn}").fill(text)
        self._button("Store", self._turn(turn))
        expect(self._turn(turn).get_by_role("button", name="Cancel")).to_have_count(0)

    def do_hide(self, turn: int, role: str) -> None:
        self._menu(turn, f"Hide {'your words' if role == 'user' else 'the reply'} from prompts")
        expect(self._turn(turn)).to_contain_text("hidden from prompts")

    def do_unhide(self, turn: int, role: str) -> None:
        self._menu(turn, f"Show {'your words' if role == 'user' else 'the reply'} in prompts again")
        expect(self._turn(turn)).not_to_contain_text("hidden from prompts")

    def do_keep_quick(self, label: str, text: str) -> None:
        self._setup()
        self.page.get_by_label("Label of a quick reply").fill(label)
        self.page.get_by_label("Words that it says").fill(text)
        self._button("Keep it")
        expect(
            self.page.get_by_role("group", name="Quick replies").get_by_role("button", name=label)
        ).to_be_visible()

    def do_forget_quick(self, label: str) -> None:
        self._setup()
        kept = self.page.get_by_role("region", name="Quick replies of the chat")
        self._button("Forget", kept.get_by_role("listitem", name=label))
        expect(kept.get_by_role("listitem", name=label)).to_have_count(0)

    def do_quick(self, label: str) -> None:
        quick = self.page.get_by_role("group", name="Quick replies", exact=True)
        self._run_again(lambda: self._button(label, quick))

    def do_impersonate(self) -> None:
        self._button("Write for me")
        expect(self.chat.get_by_role("textbox", name="What you say")).not_to_have_value("")
        self._run_again(lambda: self._button("Say it"))

    def _branch_is(self, name: str | re.Pattern[str]) -> None:
        expect(self.chat.get_by_role("combobox", name="Branch")).to_have_value(name)

    def do_branch(self, turn: int | None = None) -> None:
        number = turn if turn is not None else self.hand.get("sessions", CHAT)["turns"][-1]["number"]
        self._menu(number, "Branch from here")
        self._branch_is(re.compile("branch-"))

    def do_switch(self, branch: str) -> None:
        self.chat.get_by_role("combobox", name="Branch").select_option(branch)
        self._branch_is(branch)

    def do_delete_branch(self, branch: str) -> None:
        self.do_switch(branch)
        self._setup()
        self._button("Delete this branch …")
        self._button("Delete", self.page.get_by_role("dialog"))
        self._branch_is("main")

    def do_delete_turn(self, turn: int) -> None:
        self._menu(turn, "Delete the turn …")
        self._button("Delete", self.page.get_by_role("dialog"))
        expect(self._turn(turn)).to_have_count(0)

    def do_delete_reply(self, turn: int, variant: int) -> None:
        self.do_select(turn, variant)
        self._menu(turn, "Delete this reply …")
        self._button("Delete", self.page.get_by_role("dialog"))
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def do_rewind(self, turn: int) -> None:
        self._menu(turn, "Rewind to here …")
        self._button("Rewind", self.page.get_by_role("dialog"))
        expect(self.page.get_by_role("dialog")).to_have_count(0)

    def do_title(self, text: str) -> None:
        self._setup()
        self.page.get_by_label("Title").fill(text)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("navigation", name="Chats")).to_contain_text(text)

    def do_search(self, words: str) -> None:
        self._setup()
        self.page.get_by_label("Find words in this branch").fill(words)
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_role("list", name="Found")).to_contain_text("turn ")

    def do_reset(self) -> None:
        self._setup()
        self._button("Begin an empty session")
        sessions = self.page.get_by_role("region", name="Sessions of the profile")
        expect(sessions.get_by_role("listitem")).to_have_count(2)

    def do_reopen(self, session: str) -> None:
        self._setup()
        row = self.page.get_by_role("region", name="Sessions of the profile").get_by_role("listitem")
        self._button("Go on with it", row.filter(has_text=session))
        expect(row.filter(has_text=session)).to_contain_text("in use")

    def do_drop_lorebooks(self) -> None:
        self._setup()
        books = self.page.get_by_role("list", name="Lorebooks")
        while books.count():
            self._button("Take away", books.get_by_role("listitem").first)
            self.page.wait_for_timeout(300)

    def do_archive(self) -> None:
        self._setup()
        self._button("Archive")
        expect(self.page.get_by_role("button", name="Take out of the archive")).to_be_visible()

    def do_unarchive(self) -> None:
        self._setup()
        self._button("Take out of the archive")
        expect(self.page.get_by_role("button", name="Archive", exact=True)).to_be_visible()

    def do_publish(self, tag: str) -> None:
        self.page.get_by_role("tab", name=re.compile("^State")).click()
        self._button("Publish", self.page.get_by_role("region", name=f"art.{tag}", exact=True))
        expect(self.page.get_by_text(f"art.{tag} is the artifact")).to_be_visible()

    def do_save_turns(self, file: str) -> None:
        self._setup()
        with self.page.expect_download() as download:
            self.page.get_by_role("link", name=re.compile("for other programs")).click()
        self.saved = Path(download.value.path()).read_bytes()


def test_the_evening_by_hand_leaves_what_it_leaves_in_python(
    sign_in: SignIn, shot: Shot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    same_dice(monkeypatch)
    with ThreadPoolExecutor(1) as beside:  # the driver of the browser has a loop in this thread
        left, saved = beside.submit(in_python, tmp_path).result()
    folder = tmp_path / "page"
    folder.mkdir()
    with inside(folder, offline()) as server:
        player = ByHand(sign_in(server.link()), write_files(tmp_path / "files"))
        for number, action in enumerate(EVENING):
            player.play(action)
            if number in (17, 37, 59):
                shot(player.page, f"evening-{number}")

    async def scenario() -> dict[str, Any]:
        with Kernel.open(folder / "state.db", environ={}) as kernel:
            return await remains(kernel)

    with ThreadPoolExecutor(1) as beside:
        found = differences(beside.submit(asyncio.run, scenario()).result(), left)
    assert not found, "\n".join(found)
    assert spoken(player.saved) == spoken(saved)
