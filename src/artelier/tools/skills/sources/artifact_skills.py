"""Skills that are artifacts of a space: what an agent wrote, was given or has bought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from artelier.artifacts import Artifact, Artifacts, Summary, check_principal
from artelier.errors import AccessDenied, InvalidArtifact, NotFound
from artelier.ids import MAIN_SPACE, check_space
from artelier.kernel import Services
from artelier.tools.skills.approval.injection_heuristics import invisible, suspicions
from artelier.tools.skills.definition import Definition
from artelier.tools.skills.sources.frontmatter import NAME, links_out, read_matter
from artelier.tools.skills.sources.source import FoundSkill, schema_texts

SKILLS_MAX = 500
KNOWN_MAX = 10_000
"""Versions held in memory, so that a listing reads only new ones."""
CODE_BYTES_MAX = 32 * 1024
TEXT_BYTES_MAX = 64 * 1024
KEYS = frozenset(("name", "description", "instructions", "code", "parameters"))


class ArtifactSkills:
    """Artifacts of kind `skill` that a principal may read for nothing.

    Their own are usable at once; those of others are parked until a person approves them.
    """

    shared = False

    def __init__(self, principal: str, *, space: str = MAIN_SPACE) -> None:
        """The tenant is that of the listing: no catalogue can mix two. Errors: `InvalidRequest`."""
        self.principal = check_principal(principal)
        self.space = check_space(space)
        self.name = f"artifacts:{space}:{principal}"
        self._known: dict[tuple[str, str, str, int], FoundSkill] = {}
        self._store: object = None
        """The store that `_known` is of."""

    async def find(self, services: Services, tenant: str) -> Sequence[FoundSkill]:
        """All that can be read, own ones first."""
        handle = Artifacts(services.store, services.clock, tenant, self.space, self.principal)
        summaries = await handle.list(kind="skill", limit=SKILLS_MAX)
        if self._store is not services.store:
            self._known.clear()
            self._store = services.store
        found: list[FoundSkill] = []
        for one in sorted(summaries, key=lambda item: item.owner != self.principal):
            key = (tenant, one.id, one.owner, one.version)
            known = self._known.get(key) or await self._read(handle, one)
            if known is None:
                continue
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            self._known[key] = known
            found.append(known)
        return found

    async def _read(self, handle: Artifacts, summary: Summary) -> FoundSkill | None:
        try:
            artifact = await handle.read(f"{summary.id}@{summary.version}", price_max=0)
        except (AccessDenied, NotFound):
            return None  # what costs something is bought by a decision, not by a listing
        return found_in(artifact, reader=self.principal)


def found_in(artifact: Artifact, *, reader: str) -> FoundSkill:
    """A skill artifact as a definition; one that can't be read is one too, for a person to look at."""
    foreign = [] if artifact.owner == reader else [f"it belongs to {artifact.owner}"]
    try:
        if isinstance(artifact.content, str):
            definition, texts, reasons = _from_text(artifact.id, artifact.content)
        else:
            definition, texts, reasons = _from_json(artifact.id, artifact.content)
    except InvalidArtifact as error:
        problem = str(error)[:400]
        raw = str(artifact.content)[:TEXT_BYTES_MAX]
        broken = Definition(
            origin="artifact", name=artifact.id, artifact=artifact.id, raw=raw, broken=problem
        )
        return FoundSkill(definition=broken, reasons=(problem,))
    reasons = [*foreign, *reasons, *suspicions(texts), *links_out(texts)]
    trust = "untrusted" if foreign else "trusted"
    return FoundSkill(definition=definition, reasons=tuple(reasons), trust=trust)


def _from_text(id_: str, content: str) -> tuple[Definition, str, list[str]]:
    matter = read_matter(content.encode("utf-8", "surrogatepass"))
    definition = Definition(
        origin="artifact",
        name=matter.name,
        artifact=id_,
        description=matter.description,
        instructions=matter.body,
        allowed_tools=matter.allowed_tools,
        license=matter.license,
        compatibility=matter.compatibility,
        metadata=matter.metadata,
        unknown_keys=matter.unknown_keys,
    )
    return definition, content, list(matter.reasons)


def _from_json(id_: str, content: object) -> tuple[Definition, str, list[str]]:
    if not isinstance(content, dict):
        raise InvalidArtifact("a skill is a SKILL.md or a JSON object")
    fields = cast("dict[str, Any]", content)
    name, description, instructions, code = (
        _text(fields, key) for key in ("name", "description", "instructions", "code")
    )
    if not NAME.fullmatch(name):
        raise InvalidArtifact("its name is no skill name", expected="1-64 characters of a-z 0-9 -")
    if not description or len(description) > 1_024:
        raise InvalidArtifact("its description is missing or too long", expected="1-1024 characters")
    if len(instructions.encode()) > TEXT_BYTES_MAX or len(code.encode()) > CODE_BYTES_MAX:
        raise InvalidArtifact("its instructions or its code are too long")
    parameters = fields.get("parameters")
    if parameters is None and code:
        parameters = {"type": "object"}
    if parameters is not None and not isinstance(parameters, dict):
        raise InvalidArtifact("its parameters are no JSON schema")
    definition = Definition(
        origin="artifact",
        name=name,
        artifact=id_,
        description=description,
        instructions=instructions or description,
        code=code,
        parameters=cast("dict[str, Any] | None", parameters),
        unknown_keys=tuple(sorted(fields.keys() - KEYS)),
    )
    texts = [description, instructions, *schema_texts(parameters)]
    hidden = ["its code has characters that nobody can see"] if invisible(code) else []
    return definition, "\n".join(texts), hidden


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key, "")
    if not isinstance(value, str):
        raise InvalidArtifact(f"its {key} is no text")
    return value.strip()
