"""The areas that can be measured, and the one door to them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from artelier.errors import InvalidRequest

Progress = Callable[[str], None]
Area = Callable[..., dict[str, Any]]


def _kernel(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier.testing.bench.kernel import bench_kernel

    return bench_kernel(quick=quick, directory=directory, progress=progress)


AREAS: dict[str, Area] = {"kernel": _kernel}
"""Name to `(quick=, directory=, progress=) -> figures`, loaded on use."""


def run_bench(
    area: str,
    *,
    quick: bool = False,
    directory: str | Path | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Measure one area: its figures, `targets` with whether each is met, and facts about the machine.

    `quick` measures less and at smaller sizes; a figure of another size is not judged (`met` is None).
    `directory`: where databases are put (and removed again); it must be on a real disk to mean anything.
    The current directory without one.
    Errors: `InvalidRequest` for an unknown area or a directory that is not there.
    """
    if area not in AREAS:
        raise InvalidRequest("no such benchmark", expected=", ".join(sorted(AREAS)), got=area)
    base = Path.cwd() if directory is None else Path(directory)
    if not base.is_dir():
        raise InvalidRequest(
            "the directory for the databases is not there", got=str(base), hint="Make it first."
        )
    with tempfile.TemporaryDirectory(prefix=".artelier-bench-", dir=base) as folder:
        figures = AREAS[area](quick=quick, directory=Path(folder), progress=progress or _silent)
    return {"area": area, "quick": quick, **figures}


def _silent(text: str) -> None:
    pass
