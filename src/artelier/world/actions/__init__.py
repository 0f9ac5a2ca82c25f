"""The one schema of what an agent may do in a world: parser, prompt, tools and docs come from it."""

from artelier.world.actions.action import (
    ACTIONS,
    Accept,
    Action,
    Bid,
    CancelOffer,
    Configure,
    Delete,
    Edit,
    Invoke,
    Message,
    Noop,
    Offer,
    Read,
    Search,
    SubscribeArtifact,
    Transfer,
    UnsubscribeArtifact,
    Write,
)
from artelier.world.actions.parse import Rejected, action_from, action_from_call, parse_action
from artelier.world.actions.reference_page import actions_page
from artelier.world.actions.reply import NoObject, one_object
from artelier.world.actions.schema import action_schema, action_tools, actions_prompt

__all__ = [
    "ACTIONS",
    "Accept",
    "Action",
    "Bid",
    "CancelOffer",
    "Configure",
    "Delete",
    "Edit",
    "Invoke",
    "Message",
    "NoObject",
    "Noop",
    "Offer",
    "Read",
    "Rejected",
    "Search",
    "SubscribeArtifact",
    "Transfer",
    "UnsubscribeArtifact",
    "Write",
    "action_from",
    "action_from_call",
    "action_schema",
    "action_tools",
    "actions_page",
    "actions_prompt",
    "one_object",
    "parse_action",
]
