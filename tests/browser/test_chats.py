"""A chat with a profile: another reply, the one before, a branch, and the state that people see."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

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


def test_what_was_said_behind_another_reply_opens_also_when_its_turn_is_deleted(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    hand.post("sessions", body={"id": "roads"})

    def settled() -> str:
        run = hand.get("sessions", "roads")["branches"][0]["run_id"]
        hand.until("runs", run, status="completed")
        return run

    for text in ("We set out.", "We ride north.", "The pass is closed."):
        hand.post("sessions", "roads", "turns", body={"text": text})
        behind = settled()
    hand.post("sessions", "roads", "rewind", body={"turn": 2})
    hand.post("sessions", "roads", "regenerate", body={})
    settled()
    page.goto(f"{lived_in.server.address}/chat/roads")
    chat = page.get_by_role("region", name="Chat roads")
    turn, third = chat.get_by_role("article", name="Turn 2"), chat.get_by_role("article", name="Turn 3")
    expect(turn.get_by_role("group", name="Replies").get_by_role("status")).to_have_text("2 of 2")
    expect(third).to_have_count(0)

    turn.get_by_role("button", name="More about turn 2").press("Enter")
    page.get_by_role("menuitem", name="Open another reply on a branch …").press("Enter")
    dialog = page.get_by_role("dialog", name="Other replies of turn 2")
    expect(dialog.get_by_role("button", name="Open reply 1")).to_be_focused()
    _both_themes(page, shot, "other-replies")
    page.keyboard.press("Enter")
    expect(third).to_contain_text("The pass is closed.")
    expect(chat.get_by_role("combobox", name="Branch")).to_have_value("branch-2")
    hand.post("sessions", "roads", "rewind", body={"branch": "branch-2", "turn": 1})

    page.goto(f"{lived_in.server.address}/chat/roads")
    turn.get_by_role("button", name="More about turn 2").click()
    page.get_by_role("menuitem", name="Delete the turn …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    note = page.get_by_role("region", name="Notifications")
    expect(note).to_contain_text(f"on no branch: {behind}")
    _both_themes(page, shot, "unshown")
    note.get_by_role("button", name="Open it").press("Enter")
    expect(third).to_contain_text("The pass is closed.")
    expect(turn).to_have_count(0)

    page.goto(f"{lived_in.server.address}/runs/{behind.replace('/', '%2F')}")
    page.get_by_role("button", name="Inspect").click()
    opens = page.get_by_role("button", name="Open its reply on a branch")
    expect(opens).to_be_visible()
    _both_themes(page, shot, "run-of-chat")
    page.set_viewport_size({"width": 390, "height": 844})
    opens.press("Enter")
    expect(page.get_by_role("complementary", name="Inspector")).to_have_count(0)
    expect(third).to_contain_text("The pass is closed.")


def _both_themes(page: Page, shot: Shot, name: str) -> None:
    for size in ({"width": 390, "height": 844}, {"width": 1440, "height": 900}):
        page.set_viewport_size({"width": size["width"], "height": size["height"]})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            shot(page, f"{name}-{size['width']}-{scheme}")


FAILING = {
    "profile_id": "logged",
    "operations": [
        {
            "operation_id": "log",
            "kind": "template",
            "order": 1,
            "hooks": ["after_main_llm"],
            "required": True,
            "params": {"template": "{{ 1 | divided_by: 0 }}"},
        }
    ],
}


def test_a_reply_that_failed_has_the_reason_beside_its_words(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    profile = hand.post("profiles", body={"profile": FAILING})["ref"]
    hand.post("sessions", body={"id": "unlogged", "profile": profile})
    hand.post("sessions", "unlogged", "turns", body={"text": "Hello."})
    page.goto(f"{lived_in.server.address}/chat/unlogged")
    turn = page.get_by_role("article", name="Turn 1")
    expect(turn).to_contain_text("Hello.")
    expect(turn.get_by_text(re.compile("^failed: required operation 'log'"))).to_be_visible()
    expect(turn.get_by_text(re.compile("^Operation log: .*divi"))).to_be_visible()
    shot(page, "failed-turn-dark")
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    expect(turn.get_by_text(re.compile("^Operation log: "))).to_be_visible()
    shot(page, "failed-turn-light")


CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {"name": "Mira", "description": "{{char}} keeps the inn.", "first_mes": "*Come in*, {{user}}."},
}


def _file(name: str, content: object) -> FilePayload:
    return {"name": name, "mimeType": "application/octet-stream", "buffer": json.dumps(content).encode()}


def test_an_evening_begins_with_a_card_and_nothing_needs_a_file_edited_by_hand(
    lived_in: LivedIn, sign_in: SignIn, shot: Shot
) -> None:
    page = sign_in(lived_in.server.link())
    hand = Hand(page)
    main = hand.go("Chat")
    main.get_by_label("Begin with a file: files").set_input_files(_file("mira.json", CARD))
    greeting = page.get_by_role("article", name="Greeting")
    expect(greeting.locator("em")).to_have_text("Come in")  # rendered, with the name filled in
    expect(greeting).to_contain_text("User.")

    page.get_by_role("tab", name="Set-up").click()
    page.get_by_role("switch", name="A character joins the one there is").click()
    taking = page.get_by_label("Take in a file: files")
    taking.set_input_files(_file("bob.json", {**CARD, "data": {"name": "Bob", "first_mes": "Hm."}}))
    members = page.get_by_role("region", name="Characters")
    expect(members.get_by_role("listitem")).to_have_count(2)
    taking.set_input_files(
        _file("town.json", {"entries": {"0": {"uid": 0, "key": ["inn"], "content": "Old."}}})
    )
    expect(page.get_by_role("list", name="Lorebooks").get_by_role("listitem")).to_have_count(1)
    page.get_by_label("Temperature").fill("0.5")
    page.get_by_label("Author's note").fill("It rains.")
    page.get_by_role("button", name="Store these").click()
    expect(page.get_by_label("Author's note")).to_have_value("It rains.")

    page.get_by_role("textbox", name="What you say").fill("Good evening.")
    page.keyboard.press("Enter")
    turn = page.get_by_role("article", name="Turn 1")
    expect(turn).to_contain_text("Bob")
    expect(turn.get_by_role("button", name="Next speaker")).to_be_enabled()
    turn.get_by_role("button", name="Next speaker").click()
    expect(page.get_by_role("article", name="Turn 2")).to_contain_text("Mira")
    shot(page, "group")

    turn.get_by_role("button", name="More about turn 1").click()
    page.get_by_role("menuitem", name="Change the reply …").click()
    page.get_by_label("The reply of turn 1").fill("A revised reply.")
    page.get_by_role("button", name="Store", exact=True).first.click()
    expect(turn).to_contain_text("A revised reply.")
    turn.get_by_role("button", name="More about turn 1").click()
    page.get_by_role("menuitem", name="Hide the reply from prompts").click()
    expect(turn).to_contain_text("hidden from prompts")
    page.get_by_label("Find words in this branch").fill("REVISED")
    page.keyboard.press("Enter")
    expect(page.get_by_role("list", name="Found")).to_contain_text("turn 1, reply 1")
    page.get_by_label("Title").fill("The inn")
    page.keyboard.press("Enter")
    expect(page.get_by_role("navigation", name="Chats")).to_contain_text("The inn")
    turn.get_by_role("button", name="More about turn 1").click()
    page.get_by_role("menuitem", name="Delete the turn …").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(turn).to_have_count(0)
    expect(page.get_by_role("article", name="Turn 2")).to_be_visible()


_DROP = """([zone, files]) => {
    const carried = new DataTransfer();
    for (const [name, text] of files) carried.items.add(new File([text], name));
    for (const type of ["dragenter", "dragover", "drop"])
        zone.dispatchEvent(new DragEvent(type, { bubbles: true, cancelable: true, dataTransfer: carried }));
}"""


def _drop(page: Page, zone: Locator, *files: tuple[str, str]) -> None:
    """Drop files on a place, as a hand with a pointer does."""
    page.evaluate(_DROP, [zone.element_handle(), [list(one) for one in files]])


def test_files_that_are_dropped_are_taken_in(lived_in: LivedIn, sign_in: SignIn, shot: Shot) -> None:
    page = sign_in(lived_in.server.link())
    main = Hand(page).go("Chat")
    card = {**CARD, "data": {**CARD["data"], "name": "Nell", "first_mes": "**Good** evening, {{user}}."}}
    _drop(page, main.get_by_role("button", name="Begin with a file"), ("nell.json", json.dumps(card)))
    greeting = page.get_by_role("article", name="Greeting")
    expect(greeting.locator("strong")).to_have_text("Good")
    page.get_by_role("tab", name="Set-up").click()
    zone = page.get_by_role("button", name="Take in a file")
    book = {"name": "Inn", "entries": {"0": {"uid": 0, "key": ["inn"], "content": "Old."}}}
    _drop(page, zone, ("inn.json", json.dumps(book)))
    expect(page.get_by_role("list", name="Lorebooks").get_by_role("listitem")).to_have_count(1)
    _drop(page, zone, ("zoe.json", json.dumps({"name": "Zoe", "description": "A guest."})))
    lines = ({"name": "Zoe", "is_user": True, "mes": "A room?"}, {"name": "Nell", "mes": "The last one."})
    _drop(page, zone, ("talk.jsonl", "\n".join(map(json.dumps, lines))))
    turn = page.get_by_role("article", name="Turn 1")
    expect(turn).to_contain_text("A room?")
    expect(turn).to_contain_text("The last one.")
    _drop(page, zone, ("broken.json", "{"))
    expect(page.get_by_text(re.compile("is no JSON")).first).to_be_visible()
    shot(page, "dropped")
