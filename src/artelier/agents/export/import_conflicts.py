"""The room of a tenant for an agent from elsewhere, and the state of its skills there: parked."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from artelier.agents.export.agent_namespace import KIN, card_id, kin_of, memory_folder, skills_id
from artelier.agents.export.card import SkillOnCard
from artelier.errors import Conflict
from artelier.ids import MAIN_SPACE
from artelier.kernel import Services
from artelier.kernel.export.archive import Header
from artelier.kernel.export.extension import Arrival
from artelier.log import Blob, EventData, Tx, make_blob
from artelier.tools.skills.approval.pins import guard_unchanged, pins_of
from artelier.tools.skills.definition import definition_from
from artelier.tools.skills.events import SkillParked

OWN_CODE = "function"
"""Origin of skills that are the developer's own code: there is nothing of them to approve elsewhere."""


class Room:
    """One import into one tenant."""

    def __init__(self, services: Services, tenant: str, agent: str, remembering: Sequence[str]) -> None:
        """`remembering`: the agents whose memories come."""
        self._services = services
        self._tenant = tenant
        self._agent = agent
        folders = [memory_folder(name) for name in {agent, *remembering}]
        self._questions = [
            (f"SELECT run FROM runs WHERE tenant = ? AND {KIN} LIMIT 1", (tenant, *kin_of(agent))),
            (
                f"SELECT artifact FROM memory_stores WHERE tenant = ? AND {KIN} LIMIT 1",
                (tenant, *kin_of(agent)),
            ),
            *(
                (
                    "SELECT id FROM artifacts WHERE tenant = ? AND space = ?"
                    " AND (substr(id, 1, ?) = ? OR id = ?) LIMIT 1",
                    (tenant, MAIN_SPACE, len(folder) + 1, f"{folder}/", f"{folder}:entries"),
                )
                for folder in folders
            ),
            (
                "SELECT id FROM artifacts WHERE tenant = ? AND space = ? AND id IN (?, ?) LIMIT 1",
                (tenant, MAIN_SPACE, card_id(agent), skills_id(agent)),
            ),
        ]

    async def arrival(
        self, skills: Sequence[SkillOnCard], *, header: Header, sha256: str
    ) -> tuple[Arrival, tuple[str, ...]]:
        """Return what the import adds, and the names of the skills that it parks. Errors: `Conflict`."""
        store = self._services.store
        for sql, parameters in self._questions:
            if rows := await store.query(sql, parameters):
                raise self._conflict(rows[0][0])
        known = {(pin.source, pin.name) for pin in await pins_of(store, self._tenant)}
        key = await store.data_key(self._tenant)
        why = [
            f"it came with agent {self._agent} in an export of tenant {header.tenant}"
            f" (sha256 {sha256[:16]}); whoever approved it did so there"
        ]
        reasons, reasons_blob = make_blob(self._tenant, key, msgspec.json.encode(why))
        events: list[EventData] = []
        blobs: list[Blob] = [reasons_blob]
        parked: dict[tuple[str, str], str] = {}
        for one in skills:
            place = (one.source, one.name)
            # What was decided here about a skill of this source stands, whatever a file says of it.
            if not one.definition or one.origin == OWN_CODE or place in known or place in parked:
                continue
            definition = definition_from(one.definition.encode())
            ref, blob = make_blob(self._tenant, key, one.definition.encode())
            blobs.append(blob)
            parked[place] = one.skill
            events.append(
                SkillParked(
                    source=one.source,
                    name=one.name,
                    skill=one.skill,
                    origin=one.origin,
                    hash=one.hash,
                    shape=definition.shape,
                    definition=ref,
                    reasons=reasons,
                )
            )
        if not events:
            blobs = []
        guard = self._guard(guard_unchanged(self._tenant, dict.fromkeys(parked)))
        return Arrival(events, blobs, guard), tuple(sorted(parked.values()))

    def _guard(self, unchanged: Callable[[Tx], None]) -> Callable[[Tx], None]:
        """The room is still there when the batch is applied."""

        def check(tx: Tx) -> None:
            for sql, parameters in self._questions:
                if (row := tx.one(sql, parameters)) is not None:
                    raise self._conflict(row[0])
            unchanged(tx)

        return check

    def _conflict(self, by: str) -> Conflict:
        return Conflict(
            f"tenant {self._tenant} has an agent {self._agent} already; nothing was imported",
            got=f"its {by}"[:200],
            hint="Import it into another tenant or another database.",
        )
