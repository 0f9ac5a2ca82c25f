"""What the kernel of a tenant does with missions: tasks, membranes, steering."""

from __future__ import annotations


class MissionsHandle:
    """Methods of `TenantKernel`."""
