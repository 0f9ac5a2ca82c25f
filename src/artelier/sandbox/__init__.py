"""The sandbox: untrusted code in a fresh, isolated interpreter with hard limits."""

from artelier.sandbox.dialect_check import CodeProblem, check_code, costly
from artelier.sandbox.monty import MontySandbox
from artelier.sandbox.protocol import SandboxError

__all__ = ["CodeProblem", "MontySandbox", "SandboxError", "check_code", "costly"]
