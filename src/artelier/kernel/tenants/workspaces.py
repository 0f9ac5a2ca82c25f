"""Workspaces: the folders of this machine that the tools of each tenant may work on.

Every tool that touches files gets its folder through `Workspaces.check`, and nowhere else. Paths are compared
after links and `..` are resolved, so that a link in one tenant's folder leads nowhere else. Read next:
`tools/workspace/files.py`, for how a path within a workspace is opened.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from artelier.errors import AccessDenied, InvalidConfig, NotFound
from artelier.ids import check_tenant

Path = str | os.PathLike[str]

FOLDER_MODE = 0o700
"""Permissions of a tenant's folder that is made here: other users of the machine have no business in it."""


class Workspaces:
    """The folders a tenant may use: any (one person's own machine), or those below a root of its own."""

    def __init__(
        self,
        *,
        roots: Mapping[str, Path] | None = None,
        base: Path | None = None,
        default: Path | None = None,
        is_confined: bool = False,
    ) -> None:
        """Describe the folders of all tenants.

        `roots` names a folder for each tenant. `base` holds one folder for each other tenant, named after it
        and made on first use. `default` is where new work happens if nobody names a folder, while tenants may
        use any. With `roots`, `base` or `is_confined`, a tenant without a folder of its own has no files.
        Errors: `InvalidConfig` if a folder is not there, or lies in that of another tenant.
        """
        self._base = None if base is None else _existing(base, "the folder of all workspaces")
        self._roots: dict[str, str] = {
            check_tenant(tenant): _existing(folder, f"the workspace of tenant {tenant}")
            for tenant, folder in (roots or {}).items()
        }
        self._default = "" if default is None else _existing(default, "the workspace")
        self.is_confined = is_confined or base is not None or bool(self._roots)
        if self.is_confined and self._default:
            raise InvalidConfig(
                "one workspace for all and one for each tenant exclude each other",
                expected="roots or base, or default",
                got="both",
            )
        self._check_apart()

    @property
    def default(self) -> str:
        """The folder of new work where tenants may use any; empty for none."""
        return self._default

    @property
    def folders(self) -> list[str]:
        """Every folder that agents may write in, as far as it is known without naming a tenant."""
        return [one for one in (self._base, self._default, *self._roots.values()) if one]

    def root(self, tenant: str) -> str:
        """Return the real path of a tenant's own folder; empty if it has none.

        Errors: `AccessDenied` if its place below `base` is a link or no folder.
        """
        if not self.is_confined:
            return self._default
        if tenant in self._roots:
            return self._roots[tenant]
        if self._base is None:
            return ""
        place = os.path.join(self._base, check_tenant(tenant))
        try:
            os.mkdir(place, FOLDER_MODE)
        except FileExistsError:
            pass
        except OSError as error:
            raise AccessDenied(
                f"the workspace of tenant {tenant} cannot be made: {error.strerror}",
                hint="Whoever runs this server makes the folder, named after the tenant.",
            ) from None
        # Exactly this name: where capital letters make no difference, two tenants would share a folder.
        is_own = tenant in os.listdir(self._base) and os.path.realpath(place) == place
        if not is_own or not os.path.isdir(place):
            raise AccessDenied(
                f"the workspace of tenant {tenant} is a link, or no folder",
                expected="a folder named after the tenant",
                hint="Name its folder with --workspace TENANT=DIR instead.",
            )
        return place

    def check(self, tenant: str, workspace: str) -> str:
        """Return the real path of a workspace that a tenant may use. A relative one starts at its folder.

        Errors: `AccessDenied` for one outside of the tenant's folder, whatever is there; `NotFound` for one
        that is not there. No message names a path of this machine.
        """
        root = self.root(tenant) if self.is_confined else ""
        place = os.path.realpath(os.path.join(root, workspace))
        if self.is_confined and not (root and is_within(place, root)):
            raise AccessDenied(
                f"the workspace is outside of the folder of tenant {tenant}"
                if root
                else f"tenant {tenant} has no folder for workspaces",
                expected="the tenant's own folder, or one in it",
                hint="Leave the workspace out; whoever runs the server sets --workspace TENANT=DIR.",
            )
        if not os.path.isdir(place):
            raise NotFound("the workspace is not there", hint="Name a folder that exists.")
        return place

    def is_denied(self, tenant: str, workspace: str) -> bool:
        """Return whether a stored workspace is not for this tenant, be it there or not."""
        try:
            self.check(tenant, workspace)
        except (AccessDenied, NotFound) as error:
            return isinstance(error, AccessDenied)
        return False

    def display_path(self, tenant: str, workspace: str) -> str:
        """Return a workspace as people are told of it who may not see paths of this machine."""
        if not workspace:
            return ""
        root = self._roots.get(tenant) or (self._base and os.path.join(self._base, tenant)) or ""
        if root and is_within(workspace, root):
            return os.path.relpath(workspace, os.path.dirname(root))
        return os.path.basename(workspace)

    def check_private(self, path: Path) -> None:
        """Check that a file of the server lies where no tool can read it. Errors: `InvalidConfig`."""
        place = os.path.realpath(path)
        roots = [*self._roots.values(), *([self._base] if self._base else [])]
        for root in roots if self.is_confined else ():
            if not is_within(place, root):
                continue
            parts = os.path.relpath(place, root).split(os.sep)
            is_shared = root == self._base and len(parts) == 1
            if is_shared or any(part.startswith(".") for part in parts):
                continue  # beside the tenants' folders, or hidden from every tool
            raise InvalidConfig(
                "a file of the server lies in the workspace of a tenant, whose tools would read it",
                got=str(path),
                hint="Keep it elsewhere, or in a folder whose name begins with a dot.",
            )

    def _check_apart(self) -> None:
        """Errors: `InvalidConfig` if one tenant's folder holds another's."""
        items = sorted(self._roots.items())
        for tenant, folder in items:
            for other, place in items:
                if other != tenant and is_within(place, folder):
                    raise _overlapping(tenant, other)
            own = os.path.join(self._base, tenant) if self._base else ""
            if self._base and (is_within(self._base, folder) or is_within(folder, self._base)):
                if not is_within(folder, own):
                    raise _overlapping(tenant, "every other tenant")


ANY_FOLDER = Workspaces()
"""Every tenant may use any folder: the default of a program that opens a kernel for itself."""


def is_within(place: str, root: str) -> bool:
    """Return whether a real path is a folder or lies in it."""
    return place == root or place.startswith(os.path.join(root, ""))


def _existing(folder: Path, what: str) -> str:
    place = os.path.realpath(folder)
    if not os.path.isdir(place):
        raise InvalidConfig(f"{what} is no folder", got=str(folder), hint="Name one that exists.")
    return place


def _overlapping(tenant: str, other: str) -> InvalidConfig:
    return InvalidConfig(
        f"the workspace of tenant {tenant} holds that of {other}, or lies in it",
        expected="folders that are apart",
        hint="Give each tenant a folder of its own.",
    )
