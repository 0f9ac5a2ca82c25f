"""Runs and steps: durable, governed, replayable. Agents, operations and worlds stand on this."""

from artelier.kernel.budget import Reservation
from artelier.kernel.events import CAPPING, COUNTING, MOVING, DroppedRecord
from artelier.kernel.export.transfer import Transferred, export_run, import_run
from artelier.kernel.export.validator import read_header
from artelier.kernel.history.comparison import compare
from artelier.kernel.history.fork import fork
from artelier.kernel.history.replay import Drive, Replayed, replay
from artelier.kernel.policy import Policy, check_grants
from artelier.kernel.prompt.conversation import Conversation, message_tokens
from artelier.kernel.prompt.manifest import FixedPart, Manifest, Prompt, RangePart
from artelier.kernel.prompt.provider_cache import SharedPrefix, shared_prefix
from artelier.kernel.prompt.renderer import Renderer
from artelier.kernel.queries.reports import receipt_of, receipts_of
from artelier.kernel.queries.runs import run_row
from artelier.kernel.rates import Rate
from artelier.kernel.run.context import RunCore, find_driver
from artelier.kernel.run.crash_recovery import reconcile
from artelier.kernel.run.handle import Run
from artelier.kernel.run.lifecycle import OpenRun
from artelier.kernel.run.services import Services, TenantState
from artelier.kernel.run.status import AgentResult, Approval, Limits, ModelResult, ToolResult
from artelier.kernel.run_limits import Opening
from artelier.kernel.steps.step_keys import result_id
from artelier.kernel.tenants.registry import Tenant, TenantContext, Tenants
from artelier.kernel.tenants.view import rates_view
from artelier.kernel.view import kernel_view

__all__ = [
    "CAPPING",
    "COUNTING",
    "MOVING",
    "AgentResult",
    "Approval",
    "Conversation",
    "Drive",
    "DroppedRecord",
    "FixedPart",
    "Limits",
    "Manifest",
    "ModelResult",
    "OpenRun",
    "Opening",
    "Policy",
    "Prompt",
    "RangePart",
    "Rate",
    "Renderer",
    "Replayed",
    "Reservation",
    "Run",
    "RunCore",
    "Services",
    "SharedPrefix",
    "Tenant",
    "TenantContext",
    "TenantState",
    "Tenants",
    "ToolResult",
    "Transferred",
    "check_grants",
    "compare",
    "export_run",
    "find_driver",
    "fork",
    "import_run",
    "kernel_view",
    "message_tokens",
    "rates_view",
    "read_header",
    "receipt_of",
    "receipts_of",
    "reconcile",
    "replay",
    "result_id",
    "run_row",
    "shared_prefix",
]
