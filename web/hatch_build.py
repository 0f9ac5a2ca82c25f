"""The build hook of the Python package: the built web application goes into every wheel and sdist.

It never calls Node: `make setup` builds the application, and a package without it is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

STATIC = "src/artelier/server/static"


class WebApplication(BuildHookInterface[Any]):
    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the built files. Errors: `FileNotFoundError` if there are none."""
        if version == "editable":
            return
        folder = Path(self.root, STATIC)
        if not (folder / "index.html").is_file():
            raise FileNotFoundError(
                f"the web application is not built: expected {STATIC}/index.html."
                " Run `make setup`, which needs Node, and build again."
            )
        build_data["artifacts"].append(f"/{STATIC}/**")
