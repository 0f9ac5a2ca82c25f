"""What holds for every test: databases left behind verify, and properties are tried without a clock."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.verification import shipped_views, verify_folder, views_of

# Workers and their children already fill the cores; threads of the numeric library would wait in loops
# for a turn and burn several times the work. Read when that library is loaded.
for _library in ("OPENBLAS", "OMP", "MKL"):
    os.environ.setdefault(f"{_library}_NUM_THREADS", "1")

MEMORY = "/dev/shm"
MEMORY_BYTES_MIN = 2 * 1024**3
"""Much more than what tests leave at one time: folders of tests that passed are removed at once."""


def _write_to_memory() -> None:
    """Put files of tests where a flush costs nothing: no test takes the power away."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    there = os.statvfs(MEMORY)
    if there.f_bavail * there.f_frsize >= MEMORY_BYTES_MIN and not there.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None  # is found anew


_write_to_memory()

# Nothing that is imported and collected is garbage.
gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Look for garbage again from here on, and only among what the tests themselves make."""
    gc.freeze()
    gc.enable()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Leave what a module's tests have kept, such as caches, out of later looks for garbage.

    A worker comes to hold more than a gigabyte, and each look through all of it takes seconds.
    """
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Let the interpreter take down all that it has: extensions report what is left as leaked."""
    gc.unfreeze()


# A shell that starts the tests in the background lets them ignore Ctrl-C. Processes of tests would inherit
# that, and those that are interrupted would go on for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_SLOW_MACHINE = (HealthCheck.too_slow,)

settings.register_profile("fast", deadline=None, max_examples=25, suppress_health_check=_SLOW_MACHINE)
settings.register_profile(
    "full",
    deadline=None,
    max_examples=40,
    derandomize=True,
    print_blob=True,
    suppress_health_check=_SLOW_MACHINE,
)
settings.load_profile("fast")  # `--hypothesis-profile=full` comes later and wins


@pytest.fixture(autouse=True)
def databases_verify(request: pytest.FixtureRequest) -> Iterator[None]:
    """After each test, every store below its `tmp_path` must verify, views included.

    It is set up first, so that it looks last, after the test's own fixtures have closed their stores.
    """
    uses_files = "tmp_path" in request.fixturenames
    folder: Path | None = request.getfixturevalue("tmp_path") if uses_files else None
    yield
    if folder is None or request.node.get_closest_marker("corrupts"):
        return
    views = [*shipped_views(), *views_of([request.module])]
    if broken := verify_folder(folder, known=views):
        lines = [f"{name}: {finding}" for name, findings in broken.items() for finding in findings]
        pytest.fail("a database does not verify\n" + "\n".join(lines), pytrace=False)
