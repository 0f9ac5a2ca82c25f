"""A chat with a profile: another reply, the one before, a branch, and the state that people see."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import LivedIn, Shot, SignIn
from tests.browser.hand import Hand

pytestmark = pytest.mark.slow


def test_a_chat_has_other_replies_branches_and_a_state(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    main = hand.go("Chat")
    main.get_by_role("button", name="New chat").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Name of the chat").fill("talk")
    profiles = dialog.get_by_role("combobox", name="Profile of operations")
    profiles.select_option(value="rp-basic")
    dialog.get_by_role("button", name="Begin").click()
    chat = page.get_by_role("region", name="Chat talk")
    chat.get_by_role("textbox", name="What you say").fill("Hello there.")
    page.keyboard.press("Enter")
    turn = chat.get_by_role("article", name="Turn 1")
    expect(turn.get_by_role("button", name="Reply again")).to_be_enabled()
    expect(turn).to_contain_text("Hello there.")

    panels = hand.get("sessions", "talk")["panels"]
    state = page.get_by_role("region", name=re.compile("^art\\."))
    expect(state).to_have_count(len(panels))
    assert panels

    turn.get_by_role("button", name="Reply again").click()
    replies = turn.get_by_role("group", name="Replies").get_by_role("status")
    expect(replies).to_have_text("2 of 2")
    expect(turn.get_by_role("button", name="Reply again")).to_be_enabled()
    turn.get_by_role("button", name="Previous reply").click()
    expect(replies).to_have_text("1 of 2")
    assert hand.get("sessions", "talk")["turns"][-1]["selected"] == 1

    turn.get_by_role("button", name=re.compile("More about turn 1")).click()
    page.get_by_role("menuitem", name="Branch from here").click()
    branch = chat.get_by_role("combobox", name="Branch")
    expect(branch).not_to_have_value("main")
    chat.get_by_role("textbox", name="What you say").fill("And on this branch?")
    page.keyboard.press("Enter")
    second = chat.get_by_role("article", name="Turn 2")
    expect(second).to_contain_text("And on this branch?")
    expect(second.get_by_role("button", name="Reply again")).to_be_enabled()
    shot(page, "chat")

    branch.select_option("main")
    expect(second).to_have_count(0)
    expect(turn).to_contain_text("Hello there.")
    page.reload()
    expect(turn).to_contain_text("Hello there.")
