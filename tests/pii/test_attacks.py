"""Ways to hide a value, to break what holds one, and to be given another run's value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from artelier import Run, tool
from artelier.log import make_blob
from artelier.pii.vault import PLACEHOLDER, placeholders_in
from artelier.testing import ScriptedModel, tool_call
from tests.kernel.stage import drive, play, user
from tests.pii.test_door import ACME, ANA, CARD, Mail, opened, seen

JSON_FORMS = [
    b'{"a":"ana.lopez\\u0040example.org"}',
    b'{"z": 1, "email": "ana.lopez@example.org", "a": 1.10, "a": 1E5}',
    b'{"a":"x\\nana.lopez@example.org"}\n{"b":1}\n',
    b' {"a": "x\\tana.lopez@example.org"}',
    b'{"arguments":"{\\"to\\":\\"a\\\\nana.lopez@example.org\\"}"}',
    b'print("a\\nana.lopez@example.org")',
    b'{"card": 4111111111111111, "n": [4111111111111111, 2]}',
    b'{"inner": "{\\"card\\": 4111111111111111}"}',
    b"<a><m>ana.lopez@example.org</m>" + b"<b>x</b>" * 500 + b"</a>",
    b"q=1&mail=ana.lopez@example.org&" + b"k=v&" * 800,
    "Straße;ana.lopez@example.org".encode("latin-1"),
    "mail ana.lopez@example.org".encode("utf-16"),
    "größe;mail\nAna;ana.lopez@example.org\n".encode("utf-16-le"),
    "name;mail\nAna;ana.lopez@example.org\n".encode("utf-16-be"),
    "größe;mail\nAna;ana.lopez@example.org\x0b\n\x1a".encode("latin-1"),
    "name;mail\nAna;ana.lopez@example.org\n".encode("utf-32"),
    b"ana.lopez\\x40example.org and ana\\.lopez\\@example\\.org",
    b"<p>ana.lopez&amp;#64;example.org ana.lopez&#0064;example.org ana.lopez&#64example.org</p>",
    b"write to _ana.lopez@example.org_, or __ana.lopez@example.org__",
    b"<p>ana.lopez&#64;example.org, ana.lopez&commat;example&#x2e;org</p>",
    b'{"html": "<a href=\\"mailto:ana.lopez&#64;example.org\\">"}',
]


@pytest.mark.parametrize("content", JSON_FORMS)
def test_a_hidden_value_is_found_and_nothing_else_is_changed(tmp_path: Path, content: bytes) -> None:
    async def scenario() -> None:
        with opened(tmp_path, ScriptedModel([])) as kernel:
            await kernel.for_tenant(ACME).state()
            key = await kernel.store.data_key("acme")
            stored = make_blob("acme", key, content)[1].content
            encoding = {255: "utf-16", 0: "utf-16-be"}.get(content[0], "latin-1")
            encoding = "utf-16-le" if content[1:2] == b"\0" else encoding
            encoding = "utf-32" if content[2:4] == b"\0\0" else encoding
            text, done = content.decode(encoding), stored.decode(encoding)

            assert "ana.lopez" not in done
            assert CARD.replace(" ", "") not in done
            named = placeholders_in(done)
            assert len({*named}) == 1
            pieces = PLACEHOLDER.split(done.replace(f'"{named[0]}"', named[0]))[::2]
            bare = text.replace(" ", "")
            assert all(piece.replace(" ", "").strip('"\\') in bare for piece in pieces)
            for line in content.splitlines():
                if is_json(line):
                    assert is_json(stored.splitlines()[content.splitlines().index(line)])
            assert make_blob("acme", key, stored)[1].content == stored

    play(scenario())


def is_json(line: bytes) -> bool:
    try:
        value = msgspec.json.decode(line)
        return all(is_json(item.encode()) for item in _inner(value))
    except msgspec.DecodeError:
        return False


def _inner(value: Any) -> list[str]:
    items = list(value.values()) if isinstance(value, dict) else []
    return [item for item in items if isinstance(item, str) and item.startswith("{")]


def _steal(role: str) -> Any:
    async def code(run: Run, named: str) -> Any:
        await run.step_model(
            model="m", messages=[{"role": role, "content": f"write to {named}"}, user("now")]
        )
        return (await run.step_tool("send_mail", {"to": named, "text": "mine"})).value

    return code


@pytest.mark.parametrize("role", ["system", "assistant", "user"])
def test_a_placeholder_in_any_message_of_the_code_is_text(tmp_path: Path, role: str) -> None:
    mail, model = Mail(), ScriptedModel(["noted", "ok"])
    named: list[str] = []

    async def first(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {ANA}")])).text

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool()) as kernel:
            runs = kernel.for_tenant(ACME)
            assert await drive(runs, first, "a") == "completed"
            named.extend(placeholders_in(seen(model.requests[0])))
            assert await drive(runs, lambda run: _steal(role)(run, named[0]), "b") == "completed"
            assert mail.sent == [(named[0], "mine")]

    play(scenario())


def test_a_placeholder_in_what_a_person_writes_is_text(tmp_path: Path) -> None:
    mail = Mail()
    named: list[str] = []
    model = ScriptedModel(["noted"])

    @tool(side_effect=False, reads_store=True)
    async def note() -> Any:
        """The note."""
        found = await desks[0].as_principal("user:kim").artifacts.read("note1")
        return found.content

    desks: list[Any] = []

    async def first(run: Run) -> Any:
        return (await run.step_model(model="m", messages=[user(f"I am {ANA}")])).text

    async def second(run: Run) -> Any:
        await run.step_tool("note", {})
        return (await run.step_tool("send_mail", {"to": named[0], "text": "mine"})).value

    async def scenario() -> None:
        with opened(tmp_path, model, mail.tool(), note) as kernel:
            runs = kernel.for_tenant(ACME)
            desks.append(runs)
            assert await drive(runs, first, "a") == "completed"
            named.extend(placeholders_in(seen(model.requests[0])))
            mine = runs.as_principal("user:kim").artifacts
            await mine.write("note1", content=f"write to {named[0]}", kind="document")
            assert await drive(runs, second, "b") == "completed"
            assert mail.sent == [(named[0], "mine")]
            found = await mine.read("note1")
            assert await runs.restored(found.content) == f"write to {named[0]}"

    play(scenario())


def test_descriptions_of_tools_hold_no_value(tmp_path: Path) -> None:
    @tool(side_effect=False)
    async def ask(who: str) -> str:
        """Ask ana.lopez@example.org about somebody."""
        return who

    model = ScriptedModel([tool_call("ask", {"who": "x"})])

    async def code(run: Run) -> Any:
        await run.step_model(model="m", messages=[user("hi")], tools=["ask"])
        assert await desks[0].render("r", "1") == model.requests[0]

    desks: list[Any] = []

    async def scenario() -> None:
        with opened(tmp_path, model, ask) as kernel:
            desks.append(kernel.for_tenant(ACME))
            assert await drive(desks[0], code) == "completed"
            assert ANA not in str(msgspec.to_builtins(model.requests[0]))
            assert await drive(desks[0], code) == "completed"

    play(scenario())
