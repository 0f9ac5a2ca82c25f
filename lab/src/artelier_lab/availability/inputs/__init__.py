"""The hostile inputs by kind, each with its twin."""

from artelier_lab.availability.inputs import (
    agents,
    answers,
    bodies,
    chat_files,
    chat_imports,
    chats,
    crumbs,
    documents,
    floods,
    held_answers,
    programs,
    reads,
    shared_pools,
    societies,
    strangers,
    uploads,
)

INPUTS = (
    *strangers.INPUTS,
    *bodies.INPUTS,
    *uploads.INPUTS,
    *chats.INPUTS,
    *chat_files.INPUTS,
    *chat_imports.INPUTS,
    *agents.INPUTS,
    *documents.INPUTS,
    *programs.INPUTS,
    *reads.INPUTS,
    *shared_pools.INPUTS,
    *floods.INPUTS,
    *answers.INPUTS,
    *crumbs.INPUTS,
    *held_answers.INPUTS,
    *societies.INPUTS,
)
"""In the order in which they are tried."""

__all__ = ["INPUTS"]
