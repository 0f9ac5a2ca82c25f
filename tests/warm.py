"""What commands and a server import with their first requests: the process that tests fork does it once."""

import gc
import importlib

from artelier.cli import tree
from artelier.server import app, routes

routes.load()
tree.root_command()
homes = {home.partition(" ")[0] for home, _ in tree.COMMANDS.values()}
commands = (f"artelier.cli.{home}" for home in homes if not home.startswith("@"))
for name in (*app.LAST, *commands, "artelier.server.mcp", "openai"):
    importlib.import_module(name)
gc.collect()
gc.freeze()  # no fork looks through it again
