"""Sections that are sent as one message stay parts of their own in the manifest."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from artelier import Kernel, Policy, Run
from artelier.app import TenantKernel
from artelier.context import Section, assemble
from artelier.errors import InvalidRequest, ReplayMismatch
from artelier.kernel import Conversation, FixedPart, Prompt, shared_prefix
from artelier.kernel.prompt.manifest import Joint, compose
from artelier.kernel.prompt.request import Shape, difference
from artelier.log import Blob, BlobRef
from artelier.pii.vault import placeholders_in
from artelier.ports.model import ChatMessage, ModelRequest, Part, messages_from
from tests.kernel.stage import Code, drive, echo, open_kernel, play, user


def system(text: str) -> tuple[ChatMessage, ...]:
    return (ChatMessage(role="system", content=text),)


def joint(tag: str, text: str, **more: Any) -> FixedPart:
    return FixedPart(tag=tag, text=text, joined=True, **more)


def prompt(*texts: str, asked: str = "go", **more: Any) -> Prompt:
    """A system message of an identity and these sections, then a question."""
    return Prompt(
        parts=(
            FixedPart(tag="identity", messages=system("You are Ada.")),
            *(joint(f"s{index}", text) for index, text in enumerate(texts)),
            FixedPart(tag="task", messages=messages_from([user(asked)]), stability="append_only"),
        ),
        **more,
    )


def ask(wanted: Prompt) -> Code:
    async def code(run: Run) -> str:
        return (await run.step_model(model="m", messages=wanted)).text

    return code


def composed(*contents: Any) -> list[Any]:
    request = compose(model="m", params={}, tools=(), output_schema=None, contents=contents)
    return [message.content for message in request.messages]


def test_text_joins_the_message_just_before_it() -> None:
    hello = messages_from([user("hi")])

    assert composed(system("a"), Joint("b"), Joint("c"), hello) == ["a\n\nb\n\nc", "hi"]
    assert composed(system("a"), hello, Joint("b"), "tail") == ["a", "hi\n\nb\n\ntail"]
    assert composed(system("a"), Joint("b"), "tail", hello) == ["a\n\nb", "hi\n\ntail"]
    assert composed(system(""), Joint("b"), (), Joint("c")) == ["b\n\nc"]
    parts = (ChatMessage(role="user", content=(Part(text="a"),)),)
    assert composed(parts, Joint("b")) == [(Part(text="a"), Part(text="b"))]
    for contents in ((Joint("a"),), (Joint("a"), hello), ((), Joint("a"))):
        with pytest.raises(InvalidRequest):
            composed(*contents)


def test_a_joined_prompt_renders_and_its_manifest_names_every_section(tmp_path: Path) -> None:
    async def scenario() -> None:
        scripted = echo()
        with open_kernel(tmp_path, scripted) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, ask(prompt("Be brief.", "Be kind."))) == "completed"
            sent = scripted.requests[0]

            assert [(m.role, m.content) for m in sent.messages] == [
                ("system", "You are Ada.\n\nBe brief.\n\nBe kind."),
                ("user", "go"),
            ]
            assert (await runs.render("r", "1")).canonical() == sent.canonical()
            manifest = await runs.manifest("r", "1")
            assert [(p.tag, p.joined) for p in manifest.parts] == [
                ("identity", False),
                ("s0", True),
                ("s1", True),
                ("task", False),
            ]
            assert all(part.tokens and part.blob for part in manifest.parts)
            path = tmp_path / "r.artelier"
            await runs.export("r", path)
        done = await Kernel.replay_file(path, ask(prompt("Be brief.", "Be kind.")))
        assert done.result == "re: go"

    play(scenario())


TEXTS = st.sampled_from(["a", "b\n\nc", "", "ünï", '"q"', "x" * 200])


@settings(max_examples=25)
@given(st.lists(st.tuples(st.sampled_from(["part", "joined", "attach"]), TEXTS), max_size=8))
def test_any_mixture_of_parts_renders_to_what_was_sent(drawn: list[tuple[str, str]]) -> None:
    made: list[FixedPart] = [FixedPart(tag="first", messages=system("s"))]
    for index, (kind, text) in enumerate(drawn):
        tag, stability = f"{kind}{index}", "fixed" if index < 3 else "volatile"
        if kind == "part":
            made.append(FixedPart(tag=tag, messages=system(text), stability=stability))
        else:
            form: dict[str, Any] = {"joined": kind == "joined", "attach": kind == "attach"}
            made.append(FixedPart(tag=tag, text=text, stability=stability, **form))

    async def scenario(folder: Path) -> None:
        scripted = echo()
        with open_kernel(folder, scripted) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, ask(Prompt(parts=tuple(made))))
            sent = scripted.requests[0].canonical()
            assert (await runs.render("r", "1")).canonical() == sent
            assert len((await runs.manifest("r", "1")).parts) == len(made)
            await runs.replay("r", ask(Prompt(parts=tuple(made))))

    with tempfile.TemporaryDirectory() as folder:
        play(scenario(Path(folder)))


CHANGED = [
    (prompt("Be rude.", "Be kind."), "s0"),
    (prompt("Be brief. Really.", "Be kind."), "s0"),
    (prompt("Be brief.", "Be cruel."), "s1"),
    (prompt("Be brief.", "Be kind.", "Be quick."), "s1"),
    (prompt("Be brief.", "Be kind.", asked="stop"), "task"),
    (
        Prompt(
            parts=(
                FixedPart(tag="identity", messages=system("You are Bob.")),
                *prompt("Be brief.", "Be kind.").parts[1:],
            )
        ),
        "identity",
    ),
]


@pytest.mark.parametrize(("changed", "section"), CHANGED)
def test_the_section_that_changed_is_named(tmp_path: Path, changed: Prompt, section: str) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path) as kernel:
            runs = kernel.for_tenant()
            await drive(runs, ask(prompt("Be brief.", "Be kind.")))
            with pytest.raises(ReplayMismatch) as caught:
                await runs.replay("r", ask(changed))
            assert caught.value.facts["section"] == section
            await drive(runs, ask(changed), "other")
            found = (await runs.diff("r", "other"))["first_divergence"]
            assert found is not None and found["section"] is not None
            assert found["section"].partition(",")[0] == section
            shared = await _shared(runs)
            wanted = "s2" if section == "s1" and len(changed.parts) == 5 else section
            assert shared.broken_by == (None if section == "task" else wanted)

    async def _shared(runs: TenantKernel) -> Any:
        first, second = await runs.manifest("r", "1"), await runs.manifest("other", "1")

        def stable(manifest: Any) -> Any:
            return msgspec.structs.replace(manifest, parts=manifest.parts[:-1])

        if section == "task":
            first, second = stable(first), stable(second)
        elif len(changed.parts) == 5:
            assert shared_prefix(first, second).shared_tokens == sum(part.tokens for part in first.parts[:3])
        return shared_prefix(first, second)

    play(scenario())


def test_a_difference_in_a_message_of_many_sections_names_the_right_one() -> None:
    def request(text: str) -> ModelRequest:
        return ModelRequest(model="m", messages=system(text))

    shapes = [
        Shape.of("a", system(""), joined=False),
        Shape.of("b", "B", joined=True),
        Shape.of("c", "C", joined=True),
    ]

    for text, tag in (("X\n\nC", "b"), ("B\n\nX", "c"), ("B", "b"), ("B\n\nC\n\nD", "c")):
        found = difference(request("B\n\nC"), request(text), shapes)
        assert found is not None
        assert found[0] == f"{tag}, message 1"


def test_what_is_private_is_taken_out_of_joined_text_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTELIER_VAULT_KEY", "a vault key for tests")
    policy = Policy(pii=True, patterns={"NAME": "Smith"})

    async def scenario() -> None:
        scripted = echo()
        with open_kernel(tmp_path, scripted, policy=policy) as kernel:
            runs = kernel.for_tenant()
            assert await drive(runs, ask(prompt("Ask Smith.", "Be kind."))) == "completed"
            told = scripted.requests[0].messages[0].text
            (name,) = placeholders_in(told)
            assert told == f"You are Ada.\n\nAsk {name}.\n\nBe kind."
            assert (await runs.render("r", "1")) == scripted.requests[0]
            assert (await runs.manifest("r", "1")).pii == {"NAME": 1}

    play(scenario())


# Sections


def _range(*messages: ChatMessage) -> Any:
    def keep(content: bytes) -> tuple[BlobRef, Blob | None]:
        return BlobRef("b:x"), None

    talk = Conversation("main", keep=keep)
    for message in messages:
        talk.append(message)
    return talk.all()


def joined(tag: str, text: str, **more: Any) -> Section:
    return Section(tag=tag, text=text, joined=True, **more)


def shape(made: Prompt) -> list[tuple[str, bool]]:
    return [(part.tag, isinstance(part, FixedPart) and part.joined) for part in made.parts]


def test_a_section_joins_a_message_of_its_role_or_stands_alone() -> None:
    talk = _range(ChatMessage(role="system", content="s"), ChatMessage(role="user", content="u"))
    made = assemble(
        [
            joined("first", "a"),
            joined("second", "b"),
            joined("asked", "c", role="user"),
            joined("more", "d", role="user"),
            Section(tag="own", text="e"),
            joined("list", "", messages=system("f")),
            joined("third", "g"),
            Section(tag="talk", range=talk),
            joined("after", "h", role="user"),
            joined("now", "i", stability="volatile"),
        ]
    )

    assert shape(made) == [
        ("first", False),
        ("second", True),
        ("asked", False),
        ("more", True),
        ("own", False),
        ("list", False),
        ("third", True),
        ("conversation", False),
        ("after", False),
        ("now", False),
    ]
    contents = [
        Joint(part.text)
        if isinstance(part, FixedPart) and part.joined
        else part.text
        if isinstance(part, FixedPart) and part.attach
        else part.messages
        for part in made.parts
    ]
    assert composed(*contents) == ["a\n\nb", "c\n\nd", "e", "f\n\ng", "s", "u", "h\n\ni"]


def test_if_the_first_section_does_not_fit_the_next_becomes_the_message() -> None:
    sections = [
        joined("identity", "word " * 400, priority=10, truncation="drop"),
        joined("rules", "Be brief.", priority=90, sources=("rules@2",)),
        joined("lore", "Once upon a time. " * 200, priority=20, trust="untrusted"),
        Section(tag="task", text="go", role="user", pinned=True),
    ]

    whole, cut = assemble(sections), assemble(sections, budget_tokens=400)

    assert shape(whole)[:3] == [("identity", False), ("rules", True), ("lore", True)]
    assert shape(cut) == [("rules", False), ("lore", True), ("task", False)]
    assert [(record.tag, record.why) for record in cut.dropped] == [("identity", "over_budget")]
    rules, lore = cast(list[FixedPart], list(cut.parts[:2]))
    assert (rules.messages, rules.src) == (system("Be brief."), ("rules@2",))
    assert (lore.cut, lore.trust) == ("end", "untrusted")
    assert sum(part.tokens for part in cut.parts) <= 400
