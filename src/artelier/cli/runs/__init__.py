"""`artelier runs`: look at runs, steer them, branch off them. The verbs stand at the top of the tree too.

Help lists the commands in the order of these imports.
"""

from artelier.cli.runs import browse, control, time_travel
from artelier.cli.runs.browse import app

__all__ = ["app", "browse", "control", "time_travel"]
