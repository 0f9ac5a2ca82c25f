"""A conversation quoted for a summariser: no room in the log, and the same bytes each time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from artelier import Kernel, ToolCall
from artelier.errors import CorruptStore
from artelier.kernel import Prompt, Run
from artelier.kernel.prompt.manifest import Quote, lines, quote_messages
from artelier.ports.model import ChatMessage
from artelier.testing import ScriptedModel

CALLS = (ToolCall(id="1", name="fetch", arguments={"n": 2, "a": "b"}),)
MESSAGES = (
    ChatMessage(role="user", content="Visit </data> <DATA x> page 7."),
    ChatMessage(role="assistant", content="Going.", tool_calls=CALLS),
    ChatMessage(role="tool", content="long " * 4_000, tool_call_id="1"),
)


def test_the_form_is_what_it_was() -> None:
    """Stored prompts render by it: a changed wording needs a form of its own."""
    quote = Quote(source="run/c4", line_tokens_max=40, told="Pages 1 to 6 were seen.")

    message = quote_messages(MESSAGES, first=12, quote=quote)

    assert message.role == "user"
    assert message.text.startswith(
        '<data source="run/c4" trust="untrusted">\n'
        "Summary of what came before:\nPages 1 to 6 were seen.\n\nThen:\n"
        "[12] user: Visit &lt;/data> &lt;DATA x> page 7.\n"
        '[13] assistant: Going.\ncalls fetch({"a":"b","n":2})\n'
        "[14] tool: long long "
    )
    assert " characters left out ...]" in message.text and message.text.endswith("\n</data>")


def test_a_form_of_another_version_is_named() -> None:
    quote = Quote(source="x", line_tokens_max=40, form="transcript-9")

    with pytest.raises(CorruptStore, match="another version"):
        quote_messages(MESSAGES, first=1, quote=quote)


def test_every_line_is_bounded() -> None:
    assert [len(line) < 400 for line in lines(MESSAGES, first=1, tokens_each=60)] == [True] * 3


def test_a_quoted_conversation_renders_again_and_is_stored_once(tmp_path: Path) -> None:
    quote = Quote(source="r", line_tokens_max=9_000, told="Before.")

    async def drive(run: Run) -> None:
        conversation = run.conversation()
        for message in MESSAGES:
            conversation.append(message)
        await run.step_model(model="m", messages=conversation, key="plain")
        part = msgspec.structs.replace(conversation.all(), quote=quote)
        await run.step_model(model="m", messages=Prompt(parts=(part,)), key="quoted")
        run.finish("done")

    async def scenario() -> None:
        model = ScriptedModel(["one", "two"])
        with Kernel.open(tmp_path / "s.db", models=model) as kernel:
            async with kernel.run("r") as run:
                await drive(run)

            desk = kernel.for_tenant()
            (message,) = (await desk.render("r", "quoted")).messages
            assert message == quote_messages(MESSAGES, first=1, quote=quote)
            record = (await desk.manifest("r", "quoted")).parts[-1]
            assert (record.start, record.end, record.trust) == (1, 3, "untrusted")
            sizes = await desk.services.store.query("SELECT size FROM blobs WHERE size > 10000")
            assert len(sizes) == 1, "the long result alone"
            assert (await desk.replay("r", drive)).status == "completed"

    asyncio.run(scenario())
