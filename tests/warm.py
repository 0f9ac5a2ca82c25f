"""What a server imports with its first requests; the process whose forks are killed by tests does it once."""

import importlib

from artelier.server import app, routes

routes.load()
for name in app.LAST:
    importlib.import_module(name)
