"""The failures of operations that the drivers of steps catch, without loading profiles."""

from __future__ import annotations

from artelier.errors import ArtelierError


class OperationStepFailed(ArtelierError):
    """A required operation of a step is not done: `failed_type` is `before_barrier` or `after_main_llm`."""

    code = "operation_required"
