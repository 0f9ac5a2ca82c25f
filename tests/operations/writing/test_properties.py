"""What holds for any book, card, chat and bytes."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from artelier.errors import ArtelierError
from artelier.operations.lore import (
    Character,
    ChatLogMessage,
    ChatLogTurn,
    ChatLogVariant,
    ImportedChat,
    Lorebook,
    LorebookEntry,
    activate,
    read_card,
    read_chat,
    read_form,
    read_world_info,
    write_card,
    write_chat,
    write_lorebook,
)
from artelier.operations.lore.presets import read_preset, write_preset
from artelier.operations.lore.prompt_places import USUAL, PlacedPrompt, all_parts
from tests.operations.writing.files import V3, chunk, png, text_chunk

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
line = st.text(
    st.characters(
        min_codepoint=33, max_codepoint=1_000, exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cn", "Cf"]
    ),
    max_size=20,
)
key = line.filter(lambda value: value and value == value.strip())
json_value = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
extensions = st.dictionaries(st.sampled_from(["x/a", "y", "talkativeness"]), json_value, max_size=2)
turns = st.integers(0, 10_000)

entries = st.builds(
    LorebookEntry,
    id=st.uuids().map(str),
    name=line,
    content=text.filter(lambda value: "@@" not in value),
    keys=st.lists(key, max_size=3, unique=True).map(tuple),
    secondary_keys=st.lists(key, max_size=2, unique=True).map(tuple),
    selective_logic=st.sampled_from(["and_any", "and_all", "not_any", "not_all"]),
    enabled=st.booleans(),
    constant=st.booleans(),
    case_sensitive=st.booleans(),
    whole_words=st.booleans(),
    use_regex=st.booleans(),
    scan_depth=st.none() | st.integers(0, 1_000),
    order=st.integers(-1_000_000, 1_000_000),
    priority=st.integers(-1_000_000, 1_000_000),
    place=st.sampled_from(["before", "after", "depth"]),
    depth=st.integers(0, 1_000),
    role=st.sampled_from(["system", "user", "assistant"]),
    probability=st.integers(0, 100),
    sticky=turns,
    cooldown=turns,
    delay=turns,
    found_by_recursion=st.booleans(),
    feeds_recursion=st.booleans(),
    extensions=extensions,
)
books = st.builds(
    Lorebook,
    name=line,
    description=text,
    scan_depth=st.integers(0, 1_000),
    budget_tokens=st.integers(0, 1_000_000),
    recursive=st.booleans(),
    entries=st.lists(entries, max_size=4).map(tuple),
    extensions=extensions,
)
characters = st.builds(
    Character,
    name=line.filter(bool),
    nickname=st.none() | line.filter(bool),
    description=text,
    personality=text,
    scenario=text,
    first_message=text,
    alternate_greetings=st.lists(text.filter(bool), max_size=3).map(tuple),
    example_dialogue=text,
    system_prompt=text,
    post_history_instructions=text,
    creator_notes=text,
    tags=st.lists(line.filter(bool), max_size=3).map(tuple),
    creator=line,
    version=line,
    extensions=extensions,
)


@given(characters, st.none() | books)
def test_a_card_survives_its_way_out_and_in(character: Character, lorebook: Lorebook | None) -> None:
    card = read_card(write_card(character, lorebook=lorebook))

    assert card.character == character
    if lorebook is not None:
        named = lorebook if lorebook.name else msgspec.structs.replace(lorebook, name=character.name)
        assert card.lorebook == named


@given(books)
def test_a_lorebook_survives_its_way_out_and_in(lorebook: Lorebook) -> None:
    assert read_world_info(write_lorebook(lorebook)) == lorebook
    assert read_form(Lorebook, lorebook.to_content()) == lorebook


variants = st.builds(ChatLogVariant, text=text, sent_at=line, extensions=extensions)


@st.composite
def messages(draw: st.DrawFn, role: str) -> ChatLogMessage:
    said = draw(st.lists(variants, min_size=1, max_size=3))
    return ChatLogMessage(
        role=role,  # pyright: ignore[reportArgumentType] - one of the three
        name=draw(line),
        variants=tuple(said),
        selected=draw(st.integers(0, len(said) - 1)),
        hidden=role == "system" and draw(st.booleans()),
        extensions=draw(extensions),
    )


chats = st.builds(
    ImportedChat,
    user=line.filter(bool),
    char=line.filter(bool),
    created_at=line,
    turns=st.lists(
        st.builds(
            lambda user, note, reply: ChatLogTurn(messages=(user, *note, reply)),
            messages("user"),
            st.lists(messages("system"), max_size=1),
            messages("assistant"),
        ),
        max_size=3,
    ).map(tuple),
)


@given(chats)
def test_a_chat_survives_its_way_out_and_in(chat: ImportedChat) -> None:
    again = read_chat(write_chat(chat))

    assert again.turns == chat.turns
    assert (again.user, again.char, again.created_at) in (
        (chat.user, chat.char, chat.created_at),
        (again.user, again.char, chat.created_at) if "unused" in (chat.user, chat.char) else (),
    )
    assert write_chat(again) == write_chat(read_chat(write_chat(again)))


odd = st.sampled_from([None, True, 0, 1, 2.5, "x", "user", [], {}, ["swipe"], 1 << 40])
preset_ids = ("main", "jailbreak", "chatHistory", "charDescription", "worldInfoBefore", "scenario", "a", "b")
preset_prompts = st.fixed_dictionaries(
    {"identifier": st.sampled_from(preset_ids)},
    optional={
        "content": st.sampled_from(["One.", "Two.", ""]) | odd,
        "injection_position": st.sampled_from([0, 1]) | odd,
        **dict.fromkeys(("role", "marker", "injection_depth", "injection_trigger", "injection_order"), odd),
        "forbid_overrides": odd,
    },
)
preset_orders = st.lists(
    st.fixed_dictionaries({"identifier": st.sampled_from(preset_ids), "enabled": st.booleans()}), max_size=9
)
CHANGED = (
    (),
    (PlacedPrompt(place="history"), PlacedPrompt(place="text", id="a", text="Near.", depth=2)),
    (PlacedPrompt(place="after", text="Last.", role="user"), PlacedPrompt(place="history")),
)


@given(st.lists(preset_prompts, max_size=9), preset_orders, st.sampled_from(CHANGED), text)
def test_a_preset_goes_out_as_it_came_and_what_was_changed_is_read_again(
    prompts: list[dict[str, Any]], order: list[Any], changed: tuple[PlacedPrompt, ...], system: str
) -> None:
    orders = [{"character_id": 100001, "order": order}]
    given_ = {"temperature": 1, "prompts": prompts, "prompt_order": orders}
    base = json.dumps(given_).encode()
    found = read_preset(base)

    written = write_preset("p", params=found.params, system=found.system, prompts=found.prompts, base=base)
    assert written == base
    system = system.strip()
    for parts in (found.prompts, changed):
        again = read_preset(write_preset("p", params=found.params, system=system, prompts=parts, base=base))
        wanted = tuple(all_parts(parts, has_system=bool(system)))
        assert again.system == system
        assert _shown(again.prompts) == ([] if wanted == USUAL else _shown(wanted))


def _shown(parts: tuple[PlacedPrompt, ...]) -> list[PlacedPrompt]:
    """Parts without what the file calls them."""
    return [msgspec.structs.replace(one, id="") for one in parts]


@given(st.binary(max_size=200), json_value)
def test_any_bytes_are_read_or_refused(data: bytes, value: Any) -> None:
    """An error of ours, and no other, for bytes, for JSON, for bytes in a picture, for JSON in a card."""
    packed = json.dumps(value).encode()
    field = {**V3, "data": {**V3["data"], "character_book": value, "tags": value, "extensions": value}}
    pictures = [png(chunk(b"tEXt", data)), png(text_chunk("ccv3", value)), png() + data]
    for given_bytes in (data, packed, *pictures, json.dumps(field).encode()):
        for read in (read_card, read_world_info, read_chat):
            try:
                read(given_bytes)
            except ArtelierError as error:
                assert len(str(error)) < 10_000


known_fields = (
    "key keys keysecondary content order position extensions uid id selectiveLogic sticky probability "
    "disable use_regex comment role mes swipes swipe_id extra vectorized"
).split()


@given(st.lists(st.fixed_dictionaries({}, optional=dict.fromkeys(known_fields, json_value)), max_size=3))
def test_any_values_of_known_fields_are_read_or_refused(values: list[dict[str, Any]]) -> None:
    try:
        book = read_world_info(json.dumps({"entries": values}).encode())
    except ArtelierError:
        pass
    else:
        assert read_world_info(write_lorebook(book)) == book
    try:
        chat = read_chat(b"\n".join(json.dumps(value).encode() for value in values))
    except ArtelierError:
        return
    assert read_chat(write_chat(chat)).turns == chat.turns


@given(books, st.lists(text, max_size=4), st.integers(1, 50), st.dictionaries(text, json_value))
def test_an_activation_keeps_its_promises(
    lorebook: Lorebook, said: list[str], turn: int, state: dict[str, Any]
) -> None:
    activation = activate(lorebook, said, turn=turn, state=state, seed=7)
    again = activate(lorebook, said, turn=turn, state=state, seed=7)

    orders = [item.entry.order for item in activation.entries]
    assert activation == again
    assert orders == sorted(orders)
    assert activation.tokens == sum(item.tokens for item in activation.entries)
    assert activation.tokens <= lorebook.budget_tokens
    active = {item.entry.id for item in activation.entries}
    assert active.isdisjoint(item.entry_id for item in activation.dropped)
    assert all(item.entry.enabled for item in activation.entries)
    assert activation.state == json.loads(json.dumps(activation.state))
    known = {item.id for item in lorebook.entries}
    assert activation.state.keys() <= known
