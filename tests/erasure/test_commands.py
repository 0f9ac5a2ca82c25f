"""`artelier erase` and `artelier gc`, and garbage collection as it leaves a database."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from artelier.cli import main
from artelier.errors import MissingKey, StoreLocked
from artelier.log import Batch, SqliteStore, make_blob
from tests.erasure.test_subjects import KEY, WORDS, assert_nowhere, opened, serve
from tests.kernel.stage import play


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ARTELIER_VAULT_KEY", KEY["ARTELIER_VAULT_KEY"])
    yield tmp_path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, dict[str, object]]:
    capsys.readouterr()
    code = main([*words, "--db", "s.db", "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_erase_asks_says_how_much_and_cleans_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async def before() -> None:
        with opened(folder, KEY) as kernel:
            await serve(kernel.for_tenant("acme"), "r17", WORDS[0], subject="customer-17")

    play(before())
    erase = ("erase", "--tenant", "acme", "--subject", "customer-17")

    assert main(["erase", "--db", "s.db"]) == 2  # no tenant is named
    assert said(capsys, *erase)[0] == 2  # nobody said yes
    code, would = said(capsys, *erase, "--dry-run")
    assert (code, would["keys"], would["runs"], would["dry"]) == (0, 1, ["r17"], True)
    code, done = said(capsys, *erase, "--yes")
    assert (code, done["blobs"], done["cleaned"]) == (0, would["blobs"], True)
    assert done["not_reached"] == ["exports", "backups", "reports"]
    assert said(capsys, *erase)[1]["again"] is True
    assert said(capsys, "erase", "--tenant", "acme", "--subject", "nobody", "--yes")[0] == 6
    assert said(capsys, "verify")[0] == 0
    assert said(capsys, "manifest", "render", "r17:two", "--tenant", "acme")[1]["messages"]
    assert_nowhere(folder, [WORDS[0], "customer-17"])


def test_gc_removes_what_nothing_refers_to_and_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def scenario() -> None:
        with opened(folder, {}) as kernel:
            desk = kernel.for_tenant("acme")
            prompt = await serve(desk, "r1", "quartz")
            key = await kernel.store.data_key("acme")
            blob = make_blob("acme", key, b"nobody needs " + WORDS[0].encode())[1]
            await kernel.store.append(Batch(blobs=(blob,)))
            async with desk.run("r2") as run:
                await run.step_tool("look_up", {"customer": "x"})
                assert (await kernel.collect()).busy == ("acme",)
                run.finish(None)
        with opened(folder, KEY) as kernel:
            would = await kernel.collect(dry=True)
            assert would.blobs == 1
            done = await kernel.collect()
            assert (done.blobs, done.busy, done.cleaned) == (1, (), True)
            assert done.resealed == would.resealed - 1  # the garbage was plain, too
            assert done.resealed > 5
            desk = kernel.for_tenant("acme")
            assert (await desk.render("r1", "two")).canonical() == prompt
            assert (await kernel.collect()).blobs == 0
            assert kernel.verify().ok
        with opened(folder, {}) as kernel:
            with pytest.raises(MissingKey):
                await kernel.collect()
        assert_nowhere(folder, [WORDS[0], "quartz"])

    play(scenario())
    code, found = said(capsys, "gc")
    assert (code, found["blobs"], found["cleaned"]) == (0, 0, True)


def test_a_reader_elsewhere_is_waited_for_and_a_second_call_finishes(folder: Path) -> None:
    async def scenario() -> None:
        with opened(folder, {}) as kernel:
            desk, store = kernel.for_tenant("acme"), kernel.store
            assert isinstance(store, SqliteStore)
            await serve(desk, "r17", WORDS[0], subject="customer-17")
            with closing(sqlite3.connect(folder / "s.db", isolation_level=None)) as reader:
                reader.execute("BEGIN")
                reader.execute("SELECT count(*) FROM events").fetchone()
                with pytest.raises(StoreLocked, match="again"):
                    await store.shred(timeout_s=0.05)
                reader.execute("COMMIT")
            await desk.erase(subject="customer-17")
        assert_nowhere(folder, WORDS[:2])

    play(scenario())


def test_what_commands_began_about_a_subject_is_erased_with_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "work").mkdir()
    (folder / "work" / "sales.csv").write_text(f"who,amount\n{WORDS[1]},3\nothers,4\n")
    (folder / "own.py").write_text(
        "async def mine(run):\n    return await run.step('said', lambda: 'scarlet-meadow')\n"
    )
    about = ("--subject", "customer-17")
    chat = ("chat", "c17", *about, "--model", "offline", "--message", f"Remember {WORDS[0]}.")
    do = (
        "do",
        f"What is the total amount of {WORDS[1]}?",
        "--workspace",
        "work",
        "--run-id",
        "g17",
        "--solo",
        *about,
    )
    for words in (chat, do, ("run", "own.py:mine", "--run-id", "r17", *about)):
        assert main([*words, "--db", "db/s.db"]) == 0, capsys.readouterr().err
    later = ("schedule", "add", "daily", "--goal", f"find {WORDS[2]}", "--every", "1d", *about)
    assert main([*later, "--db", "db/s.db"]) == 0
    # A run that is there has the subject that it was made for.
    assert main([*do[:-1], "customer-18", "--db", "db/s.db"]) == 1
    assert "another subject" in capsys.readouterr().err

    erase = ("erase", "--tenant", "default", *about, "--yes", "--json", "--db", "db/s.db")
    assert main([*erase]) == 0

    runs = json.loads(capsys.readouterr().out)["runs"]
    assert {"c17/r000001", "g17", "r17"} <= set(runs)
    assert main(["verify", "--db", "db/s.db"]) == 0
    assert main(["chat", "--list", "--db", "db/s.db"]) == 0
    assert main([*chat, "--db", "db/s.db"]) != 0
    assert "erased" in capsys.readouterr().err
    assert main(["artifacts", "list", "--db", "db/s.db"]) == 0
    assert main(["artifacts", "show", "reports/g17", "--db", "db/s.db"]) == 0
    assert "[erased]" in capsys.readouterr().out
    assert main(["schedule", "list", "--db", "db/s.db"]) == 0
    assert WORDS[2] not in capsys.readouterr().out
    assert_nowhere(folder / "db", WORDS)


def test_the_vault_key_is_changed_by_a_command(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def before() -> None:
        with opened(folder, KEY) as kernel:
            await serve(kernel.for_tenant("acme"), "r17", WORDS[0], subject="customer-17")

    play(before())
    shown = ("manifest", "render", "r17:two", "--tenant", "acme")
    prompt = said(capsys, *shown)[1]
    head = said(capsys, "head")[1]

    assert said(capsys, "keys", "rotate")[0] == 2  # no new key is named
    for key, code in (("short", 2), (KEY["ARTELIER_VAULT_KEY"], 2)):
        monkeypatch.setenv("ARTELIER_VAULT_KEY_NEW", key)
        assert said(capsys, "keys", "rotate")[0] == code, key
    monkeypatch.setenv("ARTELIER_VAULT_KEY_NEW", "the next key of the vault")
    code, done = said(capsys, "keys", "rotate")
    assert (code, done["cleaned"]) == (0, True) and int(str(done["keys"])) >= 2

    assert said(capsys, *shown)[0] != 0  # the old key opens nothing
    monkeypatch.setenv("ARTELIER_VAULT_KEY", "the next key of the vault")
    assert said(capsys, *shown)[1] == prompt
    assert said(capsys, "head")[1] == head
    assert said(capsys, "verify")[0] == 0
    erase = ("erase", "--tenant", "acme", "--subject", "customer-17", "--yes")
    assert said(capsys, *erase)[0] == 0
    assert_nowhere(folder, [WORDS[0], "customer-17"])
