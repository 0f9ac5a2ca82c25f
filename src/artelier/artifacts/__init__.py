"""Artifacts: addressable, versioned, owned content; who may touch it and what that costs."""

from artelier.artifacts.access import (
    Access,
    AccessDecision,
    AccessPrices,
    Bill,
    account_of,
    check_principal,
    group_of,
)
from artelier.artifacts.content import Diff, JsonDifference
from artelier.artifacts.contracts import AccessVerdict, Decisions, Gate, Interpreter, judge, static_decision
from artelier.artifacts.events import (
    GROUPING,
    MOVING,
    Act,
    ArtifactCharged,
    ArtifactDeleted,
    ArtifactHeld,
    ArtifactInvoked,
    ArtifactPruned,
    ArtifactTransferred,
    ArtifactWritten,
    GroupJoined,
    GroupLeft,
    artifact_stream,
    money_stream,
)
from artelier.artifacts.groups.membership import GroupMember, SharedItem, SharedPage
from artelier.artifacts.invocation_store import InvocationOutcome, in_scope
from artelier.artifacts.invocation_tree import (
    Call,
    InvocationFailed,
    InvocationLimits,
    MemorySearch,
    Service,
    Tree,
    principal_of,
)
from artelier.artifacts.kinds import Kind, known_kinds, register_kind
from artelier.artifacts.queries import Artifact, Lineage, Provenance, Summary, VersionInfo
from artelier.artifacts.ref import Ref
from artelier.artifacts.space_session import AccessOutcome
from artelier.artifacts.store import Artifacts, Money, Space
from artelier.artifacts.view import artifacts_view
from artelier.artifacts.working_state import Decided, Licence, Royalty, Stage, StoreStage, Working

__all__ = [
    "GROUPING",
    "MOVING",
    "Access",
    "AccessDecision",
    "AccessOutcome",
    "AccessPrices",
    "AccessVerdict",
    "Act",
    "Artifact",
    "ArtifactCharged",
    "ArtifactDeleted",
    "ArtifactHeld",
    "ArtifactInvoked",
    "ArtifactPruned",
    "ArtifactTransferred",
    "ArtifactWritten",
    "Artifacts",
    "Bill",
    "Call",
    "Decided",
    "Decisions",
    "Diff",
    "Gate",
    "GroupJoined",
    "GroupLeft",
    "GroupMember",
    "Interpreter",
    "InvocationFailed",
    "InvocationLimits",
    "InvocationOutcome",
    "JsonDifference",
    "Kind",
    "Licence",
    "Lineage",
    "MemorySearch",
    "Money",
    "Provenance",
    "Ref",
    "Royalty",
    "Service",
    "SharedItem",
    "SharedPage",
    "Space",
    "Stage",
    "StoreStage",
    "Summary",
    "Tree",
    "VersionInfo",
    "Working",
    "account_of",
    "artifact_stream",
    "artifacts_view",
    "check_principal",
    "group_of",
    "in_scope",
    "judge",
    "known_kinds",
    "money_stream",
    "principal_of",
    "register_kind",
    "static_decision",
]
