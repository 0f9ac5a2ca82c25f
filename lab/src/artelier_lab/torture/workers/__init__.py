"""Four real workers over one PostgreSQL, and what happens to them: `artelier torture --workers`."""

from artelier_lab.torture.workers.plans import PLANS
from artelier_lab.torture.workers.trial import run_workers

__all__ = ["PLANS", "run_workers"]
