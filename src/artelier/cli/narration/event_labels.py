"""The text of each kind of event, in a line that needs nothing but its own fields.

A `{field}` is replaced by the field's value. Parts are separated by ` · `; one whose fields are all absent is
left out. Kinds that deserve more have a teller: in `run_events.py`, and in Mission Control in `rowsTold.ts`,
beside which this table stands as `kindWords.ts` (`make docs` writes it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from artelier.cli import display

VALUE_CHARS = 80

WORDS: dict[str, str] = {
    "action.rejected": "refused · {code}",
    "action.taken": "done",
    "agent.joined": "{agent} joins",
    "agent.left": "{agent} leaves",
    "agent.moved": "{agent} goes from {origin} to {to} · {reason}",
    "approval.heard": "the tool hears the answer · {key}",
    "artifact.charged": "{action} of {id} · paid by {payer}",
    "artifact.deleted": "{id} is deleted",
    "artifact.held": "the price of calling {id} is held · for {caller}",
    "artifact.invoked": "{id} is called · {outcome} · by {caller}",
    "artifact.pruned": "versions of {id} before {kept_from} are gone",
    "artifact.transferred": "{id} goes from {giver} to {to}",
    "artifact.written": "{id} v{version} · {kind} · {size_bytes} bytes",
    "auction.closed": "round {round} of the mint is over · won by {winner} · {artifact}",
    "bid.placed": "a bid of {amount} · for {artifact}",
    "block.attached": "{artifact} is in memory as {label}",
    "block.detached": "{artifact} is no longer in memory as {label}",
    "block.written": "memory block {label} is written · v{version}",
    "branch.deleted": "branch {branch} is deleted",
    "branch.made": "branch {branch} begins",
    "branch.rewound": "branch {branch} goes back to an earlier turn",
    "chat.changed": "the settings are changed",
    "chat.deleted": "the chat is deleted",
    "chat.labeled": "the chat has another title, or is archived",
    "chat.opened": "the chat begins",
    "command.given": "{verb} · {key} · {choice}",
    "commit.reported": "effects of {hook} are in place",
    "condition.unknown_name": "{agent} · names that no fact has: {names}",
    "content.erased": "content is erased · {blobs} pieces · {values} values",
    "context.assembled": "a prompt is put together · {key}",
    "context.compacted": "messages {start} to {end} become a summary · {key}",
    "context.restored": "messages from {start} on are shown again · {key}",
    "cycle.completed": "cycle {cycle} is over",
    "entry.added": "something is remembered · {entry}",
    "entry.removed": "an entry is forgotten · {entry} · {why}",
    "event.injected": "something happens · to {to}",
    "fees.shared": "fees of services pay the mint and come back to who paid them",
    "group.joined": "{principal} joins {group}",
    "group.left": "{principal} leaves {group}",
    "import.settled": "what was imported is in place",
    "lore.activated": "lore comes into the prompt · {entries} · {key}",
    "memory.added": "something is remembered · {id}",
    "memory.consolidated": "the memory is put in order",
    "memory.opened": "{agent} gets a memory",
    "memory.pruned": "entries make room · {ids}",
    "memory.removed": "entries are forgotten · {ids}",
    "memory.restored": "a change of the memory is taken back · {change}",
    "message.hidden": "a message of the {role} is hidden from prompts, or shown again · {branch}",
    "message.revised": "a message of the {role} is changed · {branch}",
    "message.sent": "a message to {to}",
    "money.transferred": "money changes hands",
    "offer.accepted": "{buyer} buys {artifact} from {seller} · for {price}",
    "offer.cancelled": "the offer is taken back · {offer}",
    "offer.made": "{seller} offers {artifact} · for {price}",
    "operation.finished": "{operation_id} is {status} · {hook} · {reason} · {code}",
    "operation.started": "{operation_id} begins · {hook} · {kind}",
    "output.judged": "{ref} is judged by a person",
    "patterns.changed": "the kinds of personal data are others",
    "rates.changed": "the rates are others",
    "reflex.fell_through": "{agent} has no reflex for it · {why} · {reason}",
    "run.phase_changed": "{phase} begins",
    "runs.imported": "runs are imported · {runs} · of tenant {tenant}",
    "schedule.added": "the schedule is made · {cron} · every {every_s} s",
    "schedule.changed": "the schedule is changed · {cron} · every {every_s} s",
    "schedule.failed": "{run} cannot be started · {code}",
    "schedule.fired": "{run} is to be started · {missed} missed before",
    "schedule.paused": "paused · {reason}",
    "schedule.queued": "waits for {behind} · {missed} missed before",
    "schedule.removed": "the schedule is removed",
    "schedule.resumed": "goes on",
    "schedule.skipped": "nothing is started · {reason} · {run}",
    "session.read": "what it goes on from is read · {profile} · {base_run}",
    "session.set": "{branch} works with session {session_id} of {profile_id}",
    "shock.applied": "a shock: {name}",
    "skill.approved": "{name} of {source} is allowed",
    "skill.parked": "{name} of {source} waits for a person · {reasons}",
    "skill.pinned": "{name} of {source} is known",
    "skill.refused": "{name} of {source} is forbidden",
    "step.cancelled": "cancelled by the run's code · {name} · {key}",
    "step.completed": "computed · {name} · {key}",
    "step.taken": "a step of an agent has changed artifacts · {run}",
    "step.timed_out": "the time was up · {name} · {key}",
    "task.cancelled": "{task} is not to be done",
    "task.changed": "{task} is changed · {agent}",
    "task.created": "{task} is made · {agent}",
    "task.reopened": "{task} is to be done after all",
    "tenant.created": "the tenant is made",
    "tenant.declared": "a program says other settings of the tenant than are stored",
    "tenant.updated": "the tenant's settings are others",
    "tick.passed": "tick {tick} is over · {acted} acted · {rejected} refused",
    "tool.question_left": "the tool goes on without an answer · {key}",
    "turn.asked": "a reply is asked for · {trigger} · {run}",
    "turn.deleted": "a turn is deleted · {branch}",
    "turns.imported": "turns are imported · into {branch}",
    "variant.begun": "a reply begins · {run}",
    "variant.deleted": "a reply is deleted · {branch}",
    "variant.ended": "the reply is {status} · {finish_reason} · {run}",
    "variant.selected": "{branch} goes on from another reply",
    "world.configured": "the settings of the world are others",
    "world.forked": "{world} is branched off {parent} · at tick {tick}",
    "world.forking": "the history of {parent} is copied · up to tick {tick} · for {world}",
    "world.imported": "{world} is imported · from {origin} · at tick {tick}",
    "world.made": "the world begins · seed {seed}",
    "world.paused": "no tick begins until it is resumed",
    "world.resumed": "ticks begin again",
}

_FIELD = re.compile(r"\{([a-z_]+)\}")


def words_of(kind: str, fields: Mapping[str, Any]) -> str:
    """An event in words; empty for a kind that has none here. Values are text, whatever they look like."""
    parts: list[str] = []
    for part in WORDS.get(kind, "").split(" · "):
        names = _FIELD.findall(part)
        said = {name: _format_value(fields.get(name)) for name in names}
        if not names or any(said.values()):
            parts.append(_FIELD.sub(lambda found, said=said: said[found[1]], part))
    return " · ".join(filter(None, parts))


def _format_value(value: object) -> str:
    if isinstance(value, str):
        return "" if value.startswith("b:") else display.line(value, chars_max=VALUE_CHARS)
    if isinstance(value, list | tuple):
        many = cast("Sequence[Any]", value)
        return display.line(", ".join(filter(None, map(_format_value, many))), chars_max=VALUE_CHARS)
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else ""
