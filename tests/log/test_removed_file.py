"""A database file that is removed or replaced under an open store: nothing is reported that is not kept."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from artelier.errors import StoreUnavailable
from artelier.log import Batch, Draft, EventData, SqliteStore, Stream, StreamAppend, event

NOTES = Stream("acme", "main", "notes")


@event("removedfile.noted")
class Noted(EventData, frozen=True, kw_only=True, omit_defaults=True):
    n: int


def noted(n: int) -> Batch:
    return Batch(appends=[StreamAppend(NOTES, [Draft(Noted(n=n), 1, "me")])])


def _removed(path: Path) -> None:
    path.unlink()


def _replaced(path: Path) -> None:
    shutil.copy(path, path.with_suffix(".copy"))
    path.with_suffix(".copy").replace(path)


def _folder_removed(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("harm", [_removed, _replaced, _folder_removed])
def test_no_batch_is_committed_to_a_file_that_is_not_there(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "deep" / "s.db"

    async def scenario() -> None:
        store = SqliteStore(path, ())
        await store.append(noted(1))
        commits = store.commits
        harm(path)
        waiting = store.submit_all([noted(2), noted(3), noted(4)])
        found = await asyncio.gather(*waiting, return_exceptions=True)
        later = await asyncio.gather(store.append(noted(5)), return_exceptions=True)

        for error in [*found, *later]:
            assert isinstance(error, StoreUnavailable)
            assert "removed or replaced" in str(error)
            assert error.expected and error.got and error.hint
        assert store.commits == commits
        store.close()

    asyncio.run(scenario())


def test_a_key_is_not_made_in_a_file_that_is_not_there(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "s.db", ())
        _removed(store.path)
        with pytest.raises(StoreUnavailable, match="removed or replaced"):
            await store.data_key("acme")
        store.close()

    asyncio.run(scenario())


def test_a_file_that_is_put_back_is_written_again(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(tmp_path / "s.db", ())
        elsewhere = tmp_path / "moved.db"
        store.path.rename(elsewhere)
        with pytest.raises(StoreUnavailable):
            await store.append(noted(1))
        elsewhere.rename(store.path)
        assert (await store.append(noted(1))).seqs == (1,)
        store.close()

    asyncio.run(scenario())


def test_a_store_follows_its_file_when_the_process_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        monkeypatch.chdir(tmp_path)
        store = SqliteStore("s.db", ())
        (tmp_path / "other").mkdir()
        monkeypatch.chdir(tmp_path / "other")
        assert (await store.append(noted(1))).seqs == (1,)
        store.close()

    asyncio.run(scenario())


def test_a_scratch_store_belongs_to_nobody_else(tmp_path: Path) -> None:
    async def scenario() -> None:
        store = SqliteStore(":memory:", ())
        shutil.rmtree(store.path.parent)
        assert (await store.append(noted(1))).seqs == (1,)
        store.close()

    asyncio.run(scenario())
