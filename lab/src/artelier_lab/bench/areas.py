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
    from artelier_lab.bench.kernel.area import bench_kernel

    return bench_kernel(quick=quick, directory=directory, progress=progress)


def _context(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.context.area import bench_context

    return bench_context(quick=quick, directory=directory, progress=progress)


def _memory(
    *, quick: bool, directory: Path, progress: Progress, data: str | Path | None = None
) -> dict[str, Any]:
    from artelier_lab.bench.memory.area import bench_memory

    return bench_memory(quick=quick, directory=directory, progress=progress, data=data)


def _world(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.world.area import bench_world

    return bench_world(quick=quick, directory=directory, progress=progress)


def _operations(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.operations import bench_operations

    return bench_operations(quick=quick, directory=directory, progress=progress)


def _server(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.server.area import bench_server

    return bench_server(quick=quick, directory=directory, progress=progress)


def _pii(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.pii.area import bench_pii

    return bench_pii(quick=quick, directory=directory, progress=progress)


def _economy(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.economy import bench_economy

    return bench_economy(quick=quick, directory=directory, progress=progress)


def _scale(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.scale import bench_scale

    return bench_scale(quick=quick, directory=directory, progress=progress)


def _stores(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.stores import bench_stores

    return bench_stores(quick=quick, directory=directory, progress=progress)


def _sizing(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.sizing import bench_sizing

    return bench_sizing(quick=quick, directory=directory, progress=progress)


def _peers(*, quick: bool, directory: Path, progress: Progress) -> dict[str, Any]:
    from artelier_lab.bench.peers.area import bench_peers

    return bench_peers(quick=quick, directory=directory, progress=progress)


AREAS: dict[str, Area] = {
    "kernel": _kernel,
    "context": _context,
    "memory": _memory,
    "world": _world,
    "operations": _operations,
    "server": _server,
    "pii": _pii,
    "economy": _economy,
    "scale": _scale,
    "stores": _stores,
    "sizing": _sizing,
    "peers": _peers,
}
"""Name to `(quick=, directory=, progress=) -> figures`, loaded on use."""

TAKES_DATA = frozenset(("memory",))
"""Areas that measure on a file which `data=` names."""


def run_bench(
    area: str,
    *,
    quick: bool = False,
    directory: str | Path | None = None,
    progress: Progress | None = None,
    data: str | Path | None = None,
) -> dict[str, Any]:
    """Measure one area: its figures, `targets` with whether each is met, and facts about the machine.

    `quick` measures less and at smaller sizes; a figure of another size is not judged (`met` is None).
    `directory`: where databases are put (and removed again); it must be on a real disk to mean anything.
    The current directory without one. `data`: a file to measure on, for areas that take one.
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
        given = {"data": data} if area in TAKES_DATA else {}
        figures = AREAS[area](quick=quick, directory=Path(folder), progress=progress or _silent, **given)
    return {"area": area, "quick": quick, **figures}


def _silent(text: str) -> None:
    pass
