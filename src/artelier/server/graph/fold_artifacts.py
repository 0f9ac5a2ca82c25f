"""Artifacts, membranes, the agents that artifacts are, and what was written, sold and used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from artelier.server.graph.fold_runs import link
from artelier.server.graph.records import (
    Graph,
    GraphArtifact,
    GraphMembrane,
    SeenEvent,
    id_of,
    mission_of,
    record,
    short_name,
    string,
    strings,
)

_GROUP = "membrane:"


def _membranes_of(access: object) -> list[str]:
    """Return which membranes a policy lets read."""
    readers = strings(record(record(access).get("allow")).get("read"))
    return [one[len(_GROUP) :] for one in readers if one.startswith(_GROUP)]


def _written(graph: Graph, event: SeenEvent) -> None:
    if not (id_ := event.text("id")):
        return
    before, content = graph.artifacts.get(id_), event.parsed("content")
    title = string(event.parsed("metadata").get("title")) or string(content.get("name"))
    price = record(event.data.get("prices")).get("read")
    artifact = graph.artifacts[id_] = GraphArtifact(
        id=id_,
        kind=event.text("kind"),
        title=title or (before.title if before is not None else "") or short_name(id_),
        version=event.integer("version"),
        media=event.text("media"),
        size_bytes=event.integer("size_bytes"),
        owner=event.text("owner"),
        creator=event.text("creator"),
        mission=mission_of(id_),
        run_id=event.text("run_id"),
        derived_from=event.strings("derived_from"),
        membranes=_membranes_of(event.data.get("access")),
        price_read=price if isinstance(price, int) and not isinstance(price, bool) else 0,
        deleted=False,
        created_us=event.at_us if before is None else before.created_us,
        changed_us=event.at_us,
    )
    _share(graph, id_, before.membranes if before is not None else [], artifact.membranes)
    if artifact.kind == "agent":
        _written_agent(graph, event, artifact, content)
    elif artifact.kind == "membrane":
        _written_membrane(graph, artifact, content)
    elif artifact.kind == "task":
        if (task := graph.tasks.get(id_)) is not None:
            task.goal = string(content.get("goal"))
            task.criteria = string(content.get("success_criteria"))
    else:
        link(graph, "wrote", _writer(graph, artifact), id_, event)


def _writer(graph: Graph, artifact: GraphArtifact) -> str:
    """Return who made this version: the agent of the run that wrote it, else the owner."""
    run = graph.runs.get(artifact.run_id)
    if run is not None and run.agent:
        return run.agent
    return artifact.owner if artifact.owner in graph.agents else ""


def _written_agent(graph: Graph, event: SeenEvent, artifact: GraphArtifact, content: dict[str, Any]) -> None:
    agent = graph.agent(artifact.id)
    agent.name = string(content.get("name")) or agent.name
    agent.role = string(content.get("role")) or agent.role
    agent.version, agent.deleted = artifact.version, False
    agent.last_us = max(agent.last_us, event.at_us)


def _written_membrane(graph: Graph, artifact: GraphArtifact, content: dict[str, Any]) -> None:
    known = graph.membranes.get(artifact.id)
    if known is None:
        known = graph.membranes[artifact.id] = GraphMembrane(
            id=artifact.id,
            mission=artifact.mission,
            name=short_name(artifact.id),
            shared=graph.index.sharing.pop(artifact.id, []),
        )
    known.mission = artifact.mission
    known.name = string(content.get("name")) or known.name or short_name(artifact.id)
    known.version, known.deleted = artifact.version, False


def _share(graph: Graph, id_: str, before: list[str], after: list[str]) -> None:
    for membrane in dict.fromkeys((*before, *after)):
        if membrane == id_:
            continue
        known = graph.membranes.get(membrane)
        shared = known.shared if known is not None else graph.index.sharing.setdefault(membrane, [])
        if membrane not in after:
            if id_ in shared:
                shared.remove(id_)
        elif id_ not in shared:
            shared.append(id_)


def _deleted(graph: Graph, event: SeenEvent) -> None:
    id_ = event.text("id")
    if (artifact := graph.artifacts.get(id_)) is None:
        return
    _share(graph, id_, artifact.membranes, [])
    artifact.deleted, artifact.membranes = True, []
    for there in (graph.agents.get(id_), graph.membranes.get(id_)):
        if there is not None:
            there.deleted = True


def _transferred(graph: Graph, event: SeenEvent) -> None:
    id_, access = event.text("id"), event.data.get("access")
    if (artifact := graph.artifacts.get(id_)) is not None:
        membranes = artifact.membranes if access is None else _membranes_of(access)
        _share(graph, id_, artifact.membranes, membranes)
        artifact.owner, artifact.membranes = event.text("to"), membranes
        artifact.changed_us = event.at_us
    link(graph, "sold", event.text("giver"), event.text("to"), event)


def _charged(graph: Graph, event: SeenEvent) -> None:
    kind = "invoked" if event.text("action") == "invoke" else "read"
    link(graph, kind, event.text("id"), event.text("payer"), event)


def _membership(graph: Graph, event: SeenEvent) -> None:
    if not (group := event.text("group")):
        return
    if (known := graph.membranes.get(group)) is None:
        known = graph.membranes[group] = GraphMembrane(
            id=group,
            mission=mission_of(group),
            name=short_name(group),
            shared=graph.index.sharing.pop(group, []),
        )
    principal = event.text("principal")
    if event.kind == "group.left":
        known.members = [one for one in known.members if one != principal]
    elif principal not in known.members:
        known.members.append(principal)


def _invoked(graph: Graph, event: SeenEvent) -> None:
    link(graph, "invoked", event.text("caller"), id_of(event.text("id")), event)


_FOLDS: dict[str, Callable[[Graph, SeenEvent], None]] = {
    "artifact.written": _written,
    "artifact.deleted": _deleted,
    "artifact.transferred": _transferred,
    "artifact.charged": _charged,
    "artifact.invoked": _invoked,
    "group.joined": _membership,
    "group.left": _membership,
}


def fold_artifact(graph: Graph, event: SeenEvent) -> None:
    """Fold an event of an artifact or a group; others change nothing here."""
    if (fold := _FOLDS.get(event.kind)) is not None:
        fold(graph, event)
