"""Every prompt ever sent renders again byte for byte, and what it is made of is stored once (I6)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from artelier import Kernel, Run, tool
from artelier.app import TenantKernel
from artelier.errors import InvalidRequest, ModelRefusedCall, NotFound
from artelier.kernel import FixedPart, Prompt
from artelier.kernel.events import DroppedRecord
from artelier.ports.model import ChatMessage, ModelRequest, Part, ToolCall
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import EAGER, drive, events, open_kernel, play, result_of, user

SYSTEM = {"role": "system", "content": "be brief"}


@tool(side_effect=False)
async def look(at: str) -> Any:
    """Look."""
    return at if len(at) < 50 else {"rows": at * 2000}


TEXTS = st.sampled_from(["a", "b", "same", "ünï 😀", '"quoted"', "x" * 300, ""])
OPS = st.one_of(
    st.tuples(st.just("say"), TEXTS),
    st.tuples(st.just("conversation"), st.booleans()),
    st.tuples(st.just("tail"), st.integers(1, 4)),
    st.tuples(st.just("plain"), TEXTS),
    st.tuples(st.just("window"), st.integers(1, 4)),
    st.tuples(st.just("other"), TEXTS),
    st.tuples(st.just("parts"), TEXTS),
    st.tuples(st.just("mixed"), TEXTS),
    st.tuples(st.just("look"), TEXTS),
    st.tuples(st.just("gather"), TEXTS),
    st.tuples(st.just("fails"), TEXTS),
)


class Script:
    """Code made of drawn operations; the run is broken off after `until` of them."""

    def __init__(self, ops: list[tuple[str, Any]], until: int) -> None:
        self.ops = ops
        self.until = until

    async def __call__(self, run: Run) -> str:
        talk, other = run.conversation(), run.conversation("other")
        plain: list[Any] = [SYSTEM, user("plain")]
        talk.append(SYSTEM)
        talk.append(user("start"))
        for number, (name, value) in enumerate(self.ops):
            if number == self.until:
                raise InvalidRequest("broken off")
            await getattr(self, f"_{name}")(run, talk, other, plain, value)
        return "done"

    async def _ask(self, run: Run, messages: Any, **more: Any) -> Any:
        return await run.step_model(model="m", messages=messages, **more)

    async def _say(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        talk.append(user(text))
        plain.append(user(text))

    async def _conversation(
        self, run: Run, talk: Any, other: Any, plain: list[Any], shows_tools: bool
    ) -> None:
        reply = await self._ask(run, talk, tools=None if shows_tools else ())
        talk.append(reply)

    async def _tail(self, run: Run, talk: Any, other: Any, plain: list[Any], count: int) -> None:
        talk.append(await self._ask(run, talk.tail(count), temperature=count / 10))

    async def _plain(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        plain.append(user(text))
        plain.append({"role": "assistant", "content": (await self._ask(run, plain)).text})

    async def _window(self, run: Run, talk: Any, other: Any, plain: list[Any], count: int) -> None:
        await self._ask(run, [SYSTEM, *[m for m in plain if m["role"] != "system"][-count:]])

    async def _other(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        other.append(user(text))
        other.append(await self._ask(run, other, output={"type": "string"}))

    async def _parts(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        identity = FixedPart(tag="identity", messages=(ChatMessage(role="system", content="who"),))
        clock = FixedPart(tag="tail", text=f"now: {text}", attach=True, stability="volatile")
        dropped = (DroppedRecord(tag="memory", why="empty"),)
        await self._ask(run, Prompt(parts=(identity, talk.all(), clock), dropped=dropped))

    async def _mixed(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        await self._ask(run, [SYSTEM, user(text), talk.tail(2), user("last"), user(text)])

    async def _look(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        result = await run.step_tool("look", {"at": text})
        talk.append(ChatMessage(role="assistant", tool_calls=(ToolCall(id=result.key, name="look"),)))
        talk.append(result)

    async def _gather(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        def branch(name: str) -> Any:
            async def one(inner: Run) -> None:
                mine: list[Any] = [user(name)]
                for _ in range(2):
                    mine.append(user((await self._ask(inner, mine)).text))

            return one

        await run.gather(branch(text), branch(f"{text}!"), branch("same"))

    async def _fails(self, run: Run, talk: Any, other: Any, plain: list[Any], text: str) -> None:
        talk.append(user(f"refuse {text}"))
        try:
            await self._ask(run, talk.tail(1))
        except ModelRefusedCall:
            talk.append(user("refused"))


def _answer(request: ModelRequest) -> Any:
    text = request.messages[-1].text
    if text.startswith("refuse "):
        return ModelRefusedCall("no")
    if request.output_schema is not None:
        return '"output"'
    return f"re: {text[:40]}"


@given(ops=st.lists(OPS, min_size=1, max_size=9), cut=st.integers(0, 9), again=st.booleans())
def test_every_prompt_of_any_run_renders_to_the_bytes_that_were_sent(
    ops: list[tuple[str, Any]], cut: int, again: bool
) -> None:
    """Some runs are broken off and resumed by another kernel, some of those with code that says more."""

    async def scenario(folder: Path) -> None:
        model = ScriptedModel(_answer)

        def opened() -> Kernel:
            return Kernel.open(folder / "s.db", models=model, tools=[look], policy=EAGER)

        code = Script(ops, cut)
        with opened() as kernel:
            status = await drive(kernel.for_tenant(), code)
        if status != "completed":
            code.until = -1
            if again:
                code.ops = [*ops[:cut], ("say", "new"), *ops[cut:], ("conversation", True)]
            with opened() as kernel:
                await kernel.for_tenant().retry("r")
                assert await drive(kernel.for_tenant(), code) == "completed"
        with opened() as kernel:
            await _all_render(kernel, kernel.for_tenant(), model)
        assert kernel.verify().findings == []

    with tempfile.TemporaryDirectory() as folder:
        play(scenario(Path(folder)))


async def _all_render(kernel: Kernel, runs: TenantKernel, model: ScriptedModel) -> None:
    sent = {request.canonical() for request in model.requests}
    keys = [step["key"] for step in await runs.steps("r") if step["kind"] == "model"]
    assert {(await runs.render("r", key)).canonical() for key in keys} == sent
    for key in keys:
        manifest = await runs.manifest("r", key)
        assert manifest.model == "openai:m"
        assert 0 <= manifest.cache_boundary <= len(manifest.parts)


def test_the_manifest_says_what_a_prompt_is_made_of_and_what_was_left_out(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(["one"])
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:
                talk = run.conversation()
                talk.append(user("hello"))
                fixed = FixedPart(
                    tag="identity",
                    messages=(ChatMessage(role="system", content="who"),),
                    src=("agent:a@1",),
                    tokens=7,
                )
                note = FixedPart(tag="tail", text="now", attach=True, stability="volatile")
                dropped = (DroppedRecord(tag="memory", why="empty", tokens=3),)
                prompt = Prompt(parts=(fixed, talk.all(), note), dropped=dropped)
                reply = await run.step_model(model="m", messages=prompt, tools=None, temperature=0)
                assert reply.manifest_id == "r:1"
            found = await runs.manifest("r", "1")
            assert [(part.tag, part.stability) for part in found.parts] == [
                ("identity", "fixed"),
                ("conversation", "append_only"),
                ("tail", "volatile"),
            ]
            assert found.parts[0].src == ("agent:a@1",) and found.parts[0].tokens == 7
            assert (found.parts[1].start, found.parts[1].end) == (1, 1)
            assert found.parts[2].attach
            assert found.dropped[0].why == "empty"
            assert found.cache_boundary == 2
            assert found.params["temperature"] == 0
            assert found.tools is not None
            assert model.requests[0].messages[-1].text == "hello\n\nnow"
            with pytest.raises(NotFound, match="no model step '2'"):
                await runs.manifest("r", "2")

    play(scenario())


async def _stored(kernel: Kernel) -> tuple[int, int]:
    """Bytes of content, and rows of messages."""
    size = await kernel.store.query("SELECT sum(size) FROM blobs")
    rows = await kernel.store.query("SELECT count(*) FROM messages")
    return size[0][0], rows[0][0]


@pytest.mark.parametrize("kind", ["handle", "whole list", "window", "repeating", "two lists"])
def test_each_message_is_stored_once_however_many_prompts_show_it(tmp_path: Path, kind: str) -> None:
    """Plain lists with windows, repeated messages, and two agents that take turns, too."""
    say = "same" if kind == "repeating" else "message {n} " + "x" * 500

    async def scenario() -> None:
        model = ScriptedModel(lambda request: f"reply to {len(request.messages)}")
        with open_kernel(tmp_path, model) as kernel:
            runs = kernel.for_tenant()
            async with runs.run("r") as run:
                talk, lists = run.conversation(), ([SYSTEM], [SYSTEM])
                steps: list[tuple[int, int]] = []
                for n in range(60):
                    before = await _stored(kernel) if n else (0, 0)
                    message = user(say.format(n=n))
                    if kind == "handle":
                        talk.append(message)
                        talk.append(await run.step_model(model="m", messages=talk.tail(20)))
                    else:
                        mine = lists[n % 2 if kind == "two lists" else 0]
                        mine.append(message)
                        shown = mine if kind != "window" else [SYSTEM, *mine[1:][-20:]]
                        reply = await run.step_model(model="m", messages=shown)
                        mine.append({"role": "assistant", "content": reply.text})
                    await run.core.writer.commit()
                    after = await _stored(kernel)
                    steps.append((after[0] - before[0], after[1] - before[1]))
            assert max(rows for _, rows in steps[5:]) <= 2
            assert max(size for size, _ in steps[5:]) < 2000
            if kind == "repeating":
                assert max(size for size, _ in steps[5:]) < 600
            assert len((await runs.render("r", "60")).messages) >= 20
            data = [len(event.data) for event in await events(kernel)]
            assert max(data[-20:]) < 1000

    play(scenario())


def test_many_independent_prompts_leave_nothing_behind_in_memory(tmp_path: Path) -> None:
    async def scenario() -> None:
        with open_kernel(tmp_path, ScriptedModel(lambda _: "x")) as kernel:
            async with kernel.run("r") as run:
                for number in range(200):
                    await run.step_model(model="m", messages=[user(f"{number}")])
                assert len(run.core.lists.conversations) <= 16
                assert run.core.conversations == {}
                assert run.core.fresh == {}

    play(scenario())


def test_a_conversation_shows_tails_ranges_and_itself(tmp_path: Path) -> None:
    async def scenario() -> None:
        model = ScriptedModel(
            [tool_call("look", {"at": "moon"}), "seen", lambda request: str(len(request.messages))]
        )
        with open_kernel(tmp_path, model, tools=[look]) as kernel:
            runs = kernel.for_tenant()

            async def code(run: Run) -> Any:
                talk = run.conversation()
                talk.append(ChatMessage(role="user", content=(Part(text="one"), Part(text="two"))))
                reply = await run.step_model(model="m", messages=talk, tools=["look"])
                talk.append(reply)
                talk.append(await run.step_tool("look", {"at": "moon"}, call=reply.tool_calls[0]))
                talk.append(await run.step_model(model="m", messages=talk.range(2, 3)))
                assert len(talk) == 4
                for start, end in ((0, 2), (2, 5), (3, 2)):
                    with pytest.raises(InvalidRequest):
                        talk.range(start, end)
                with pytest.raises(InvalidRequest):
                    talk.append("text")  # pyright: ignore[reportArgumentType]
                for name in ("", "list:1", "a~2"):
                    with pytest.raises(InvalidRequest):
                        run.conversation(name)
                assert run.conversation() is talk
                digest = talk.digest
                return [(await run.step_model(model="m", messages=talk.tail(99))).text, digest]

            assert await drive(runs, code) == "completed"
            assert (await result_of(runs))[0] == "4"
            assert [m.role for m in model.requests[1].messages] == ["assistant", "tool"]
            assert model.requests[1].messages[1].text == "moon"
            assert await drive(runs, code) == "completed"

    play(scenario())
