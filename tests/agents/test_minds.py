"""The engines together, as one tick uses them: reflex, prompt, action, result, transition."""

from __future__ import annotations

import asyncio

from artelier.artifacts import Ref
from artelier.sandbox import MontySandbox
from artelier.world.actions import Noop, Read, actions_prompt, parse_action
from artelier.world.mind_artifacts import (
    MindState,
    Reading,
    TransitionAnswer,
    asks_model,
    begin,
    built_in,
    choose_prompt,
    facts_of,
    memory_facts,
    memory_text,
    next_state,
    prompt_library,
    read_workflow,
    run_reflex,
    shipped_workflow,
    with_position,
)

MEMORY = {"goal": "Earn 200 scrip.", "facts": {"has_design": False}}


def read_from_library(text: str | None) -> Reading | None:
    """What a world's store would give for a ref into the shipped library."""
    if text is None:
        return None
    part = Ref.parse(text).part or ""
    return Reading(ref=f"genesis_prompt_library@1#{part}", content=prompt_library()["prompts"][part])


def test_one_tick_from_the_prompt_to_the_next_state() -> None:
    workflow = read_workflow(shipped_workflow("build_cycle"))
    facts = facts_of(agent_id="alice", tick=1, balance=100, own=memory_facts(MEMORY))
    state, begun = begin(workflow, None)
    step = workflow.step(state.state)
    chosen = choose_prompt(read_from_library(step.prompt_artifact_id), inline=step.prompt_inline)
    assert begun is not None and chosen.prompt is not None

    prompt = chosen.prompt.render(built_in(with_position(facts, workflow, state)))
    action = parse_action('I look first.\n{"action": "read", "ref": "handbook_trading"}')

    assert chosen.source == "genesis_prompt_library@1#observe_base"
    assert "You are alice, at tick 1." in prompt and "Balance: 100 scrip" in prompt
    assert memory_text(MEMORY).text == "Goal: Earn 200 scrip."
    assert "- `read(ref, price_max?)`" in actions_prompt()
    assert action == Read(ref="handbook_trading")

    # The transition comes after the result is known, and its prompt tells the result.
    done = {"type": "read", "success": True, "result": "A handbook of {balance}."}
    after = facts_of(agent_id="alice", tick=1, balance=98, last_action=done)
    assert asks_model(workflow, state)
    asked = choose_prompt(read_from_library(step.transition_prompt_artifact_id))
    assert asked.prompt is not None
    question = asked.prompt.render(built_in(with_position(after, workflow, state)))
    state, event = next_state(workflow, state, after, TransitionAnswer('{"next_state": "ideating"}'))

    assert "Result: A handbook of {balance}." in question
    assert "Available phases: observing, ideating, implementing, reflecting" in question
    assert state == MindState(state="ideating")
    assert (event.origin, event.to, event.how) == ("observing", "ideating", "llm")


def test_a_reflex_makes_the_tick_without_any_prompt() -> None:
    code = (
        "def reflex(context):\n"
        "    if context['stuck'] and context['current_state'] == 'resting':\n"
        "        return {'action': 'noop', 'reasoning': 'still resting'}"
    )
    workflow = read_workflow({"states": ["resting"], "initial_state": "resting"})
    state = MindState(state="resting", ticks_in_state=5)
    facts = with_position(facts_of(agent_id="alice", tick=9, balance=0), workflow, state)

    async def story() -> None:
        sandbox = MontySandbox(workers=1)
        try:
            outcome = await run_reflex(sandbox, code, facts)
        finally:
            await sandbox.close()
        assert outcome.action == Noop(reasoning="still resting")

    asyncio.run(story())
