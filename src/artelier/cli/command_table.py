"""The table of commands: their modules, and their lines in the list."""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str]] = {
    "do": ("work.do", "Let agents work on GOAL in a folder and write a report."),
    "chat": ("chat", "Talk with a model, with operations that keep a state around it."),
    "run": ("work.run", "Drive a run of your own code."),
    "up": ("work.up", "Serve Mission Control to a browser on this machine."),
    "token": ("work.token", "Make bearer tokens for programs, and take them back."),
    "doctor": ("doctor", "Check this machine: what is missing, and what to do."),
    "worker": ("work.worker", "Drive the runs that nobody drives."),
    "mcp": ("work.mcp", "Serve artifacts and runs over MCP."),
    "runs": ("runs", "Look at runs, steer them, branch off them."),
    "resume": ("runs resume", "Go on with a run where it stopped."),
    "retry": ("runs retry", "Reopen a failed run."),
    "cancel": ("runs cancel", "End a run for good, and its children."),
    "pause": ("runs pause", "Let a run hold after its step at hand, until it is resumed."),
    "step": ("runs step", "Let a paused run take one step, and hold again."),
    "approve": ("runs approve", "Answer what a run asks a person."),
    "reconcile": ("runs reconcile", "Settle a side effect whose outcome is unknown."),
    "signal": ("work.signal", "Hand data to a run that waits for it."),
    "schedule": ("work.schedule", "Start runs at fixed times, and see what became of each time."),
    "fork": ("runs fork", "Branch a new run off an earlier event of a run."),
    "diff": ("runs diff", "Show where two runs part."),
    "replay": ("runs replay", "Run a run's code again over its record."),
    "export": ("runs export", "Write a run into one verifiable file."),
    "import": ("runs import", "Take the runs of an export into this database."),
    "tasks": ("work.tasks", "Look at tasks and their verdicts, make tasks, end them."),
    "artifacts": ("objects.artifacts", "Look at artifacts: what runs wrote, version by version."),
    "manifest": ("objects.manifest", "See what every prompt was made of, and the prompt itself."),
    "profile": ("objects.profile", "Look at profiles of operations, check and store them."),
    "agents": ("objects.agents", "Look at agents, and carry one elsewhere with its memory."),
    "skills": ("objects.skills", "Look at skills, and approve or refuse those that are parked."),
    "memory": ("objects.memory", "Look at what agents remember, and take changes of it back."),
    "world": ("world", "Make worlds of agents, pass their ticks, look into them."),
    "market": ("objects.market", "See what is for sale in a world, and what was paid."),
    "tenants": ("objects.tenants", "Look at tenants, change what they may use and spend."),
    "migrate": ("@artelier", "Take over what older formats hold."),
    "verify": ("maintenance.database verify", "Check that the log is what was written."),
    "head": ("maintenance.database head", "Print the root of the newest commit."),
    "erase": ("maintenance.erase", "Erase what was stored of a tenant, or of one subject."),
    "gc": ("maintenance.database gc", "Remove stored content that nothing refers to."),
    "keys": ("maintenance.database keys", "Change the key that what is stored is encrypted by."),
    "db": ("maintenance.database db", "Look after the database file."),
    "store": ("maintenance.store", "Copy a whole database to another place, file or server."),
    "bench": ("@artelier-lab", "Measure on this machine, and compare with the bounds."),
    "torture": ("@artelier-lab", "Try to break the promises of the kernel."),
}
"""Command to its module in this package (and its name in it, if it has several) and its line in the list.
`@artelier` is a member of that distribution, found by its entry point.

The line stands here so that `artelier --help` imports no command: thirty of them cost a third of a second.
"""
