"""A chat with a character card, a lorebook and a profile: variants and branches each have their own state."""

import asyncio
import json

from artelier import Kernel, Session
from artelier.operations.lore.character_import import cast_character, keep_lorebook

CARD = {
    "spec": "chara_card_v2",
    "data": {
        "name": "Mira",
        "description": "{{char}} is a smith in a village below the pass. {{user}} is her guest.",
        "first_mes": "Come in, {{user}}, and mind the sparks.",
    },
}
WORLD_INFO = {"entries": {"0": {"key": ["wolf", "wolves"], "content": "Wolves fear iron.", "position": 1}}}


async def main() -> None:
    with Kernel.open("chats.db") as kernel:
        desk = kernel.for_tenant()
        cast = await cast_character(desk, json.dumps(CARD).encode(), by="user:kim", user="Kim")
        book, _ = await keep_lorebook(desk, json.dumps(WORLD_INFO).encode(), by="user:kim", name="pass")
        chat = await Session.open(
            kernel,
            "tavern",
            model="offline",
            profile="rp-basic",
            char=cast.char,
            user="Kim",
            greetings=cast.greetings,
            lorebooks=[book],
            principal="user:kim",
        )
        print((await chat.turn(0)).text)

        first = await chat.generate("I attack the wolf with my sword")
        print(first.text)
        log = await chat.art("combat_log")
        await chat.regenerate()  # other dice, from the state before the turn
        print("the log has one line for the turn:", len(await chat.art("combat_log")) == 1)

        await chat.select_variant(1, 1)
        print("the first variant has its own state:", await chat.art("combat_log") == log)
        branch = await chat.branch("calm", at_turn=0)
        await branch.generate("I sit down by the fire")
        print("no fight on the branch:", "combat_log" not in await branch.arts())

        shown = await chat.show(first.run_id)
        lore = next(part for part in shown["prompt"] if part["tag"] == "lore")
        print("in the prompt:", *lore["src"])


asyncio.run(main())
