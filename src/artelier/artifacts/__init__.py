"""Artifacts: addressable, versioned, owned content; who may touch it and what that costs."""

from artelier.artifacts.access import Access, Decision, check_principal
from artelier.artifacts.artifact import Artifact, Lineage, Provenance, Summary, VersionInfo
from artelier.artifacts.bill import Bill, Prices, account_of
from artelier.artifacts.diff import Change, Diff
from artelier.artifacts.events import (
    MOVING,
    ArtifactCharged,
    ArtifactDeleted,
    ArtifactPruned,
    ArtifactTransferred,
    ArtifactWritten,
    artifact_stream,
)
from artelier.artifacts.kinds import Kind, known_kinds, register_kind
from artelier.artifacts.ref import Ref
from artelier.artifacts.space import Money, Space
from artelier.artifacts.store import Artifacts
from artelier.artifacts.view import artifacts_view

__all__ = [
    "MOVING",
    "Access",
    "Artifact",
    "ArtifactCharged",
    "ArtifactDeleted",
    "ArtifactPruned",
    "ArtifactTransferred",
    "ArtifactWritten",
    "Artifacts",
    "Bill",
    "Change",
    "Decision",
    "Diff",
    "Kind",
    "Lineage",
    "Money",
    "Prices",
    "Provenance",
    "Ref",
    "Space",
    "Summary",
    "VersionInfo",
    "account_of",
    "artifact_stream",
    "artifacts_view",
    "check_principal",
    "known_kinds",
    "register_kind",
]
