"""Runs and steps: durable, governed, replayable. Agents, operations and worlds stand on this."""

from artelier.kernel.artifact_ids import result_id
from artelier.kernel.budget import Reservation
from artelier.kernel.compare import compare
from artelier.kernel.conversation import Conversation, message_tokens
from artelier.kernel.core import RunCore, TenantState, run_row
from artelier.kernel.events import CAPPING, COUNTING, MOVING, DroppedRecord
from artelier.kernel.fork import fork
from artelier.kernel.inspection import read_header
from artelier.kernel.lifecycle import Opening, OpenRun
from artelier.kernel.manifest import FixedPart, Manifest, Prompt, RangePart
from artelier.kernel.policy import Policy, check_grants
from artelier.kernel.prefix import SharedPrefix, shared_prefix
from artelier.kernel.prompts import Renderer
from artelier.kernel.rates import Rate, rates_view
from artelier.kernel.receipts import receipt_of, receipts_of
from artelier.kernel.reconcile import reconcile
from artelier.kernel.replay import Drive, Replayed, replay
from artelier.kernel.results import AgentResult, Approval, Limits, ModelResult, ToolResult
from artelier.kernel.run import Run
from artelier.kernel.services import Services
from artelier.kernel.tenants import Tenant, TenantContext, Tenants
from artelier.kernel.transfer import Transferred, export_run, import_run
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
