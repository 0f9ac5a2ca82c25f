"""Every error that Artelier raises on purpose: one root, seven families.

    ArtelierError
    ├── InvalidRequest    what the caller asked for cannot be understood or is against the contract
    │   ├── InvalidArguments  InvalidArtifact  InvalidConfig  InvalidEvent  InvalidExport  InvalidImport
    │   ├── AmbiguousStepKey  MediaNotTaken  OutputInvalid  UnknownModel
    ├── NotFound          the thing named is not there (or not there for this tenant)
    │   ├── Erased (Locked)
    ├── Conflict          somebody else changed it first, or the past differs from the present
    │   ├── SequenceConflict  VersionConflict  TenantConflict  StepConflict
    │   ├── LeaseHeld  LeaseLost  ReplayMismatch  RunEnded
    ├── Refused           policy says no
    │   ├── AccessDenied  NotGranted  PriceUnknown
    ├── Exhausted         a bound was reached
    │   ├── InsufficientFunds  LimitReached  PatternTimeout  QuotaReached  QueueFull (TooManyAtOnce)
    ├── External          something outside failed
    │   ├── TransientError (RateLimited, ProviderUnavailable, ModelTimeout)
    │   ├── ModelRefusedCall  ContextTooLong  ModelReplyBroken  MissingKey
    │   ├── ToolFailed  OfflineCannot  StoreUnavailable (StoreFull, StoreLocked, StoreClosed)
    └── Corrupt           stored data is not what was written
        ├── CorruptStore  HistoryGap  HistoryLost  UnknownEvent  NewerSchema

    Flow (no error)
    ├── RunSuspended      the run waits for something and was asked not to wait in process
    └── RunStopped        the run was cancelled or stopped by a person

Constructing an error has no side effects. An error carries its facts as attributes, a stable `code` for
the wire, and the audience it addresses: the agent (a model can act on it), the operator, the programmer.
"""

from __future__ import annotations

from typing import Any, ClassVar


class ArtelierError(Exception):
    """The root: `message` says what happened, `expected`/`got` the difference, `hint` what to do next."""

    code: str = "error"
    """Of the class; an error that speaks for another one has that one's."""
    audience: ClassVar[str] = "operator"

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        got: object = None,
        hint: str | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.expected = expected
        self.got = got
        self.hint = hint
        self.facts = facts

    def __str__(self) -> str:
        parts = [self.message]
        if self.expected is not None:
            parts.append(f"expected {self.expected}")
        if self.got is not None:
            parts.append(f"got {self.got}")
        text = "; ".join(parts)
        return f"{text}. {self.hint}" if self.hint else text

    def to_wire(self) -> dict[str, Any]:
        """The one error shape: `{code, message, expected, got, hint}`; absent facts are null."""

        def plain(value: object) -> object:
            return value if value is None or isinstance(value, str | int | bool) else str(value)

        return {
            "code": self.code,
            "message": self.message,
            "expected": plain(self.expected),
            "got": plain(self.got),
            "hint": self.hint,
        }


class InvalidRequest(ArtelierError):
    code = "invalid_request"
    audience = "programmer"


class InvalidArguments(InvalidRequest):
    """Arguments of a tool do not fit its schema; readable by the model."""

    code = "invalid_arguments"
    audience = "agent"


class InvalidArtifact(InvalidRequest):
    code = "invalid_artifact"
    audience = "agent"


class InvalidConfig(InvalidRequest):
    code = "invalid_config"
    audience = "operator"


class InvalidEvent(InvalidRequest):
    code = "invalid_event"


class InvalidExport(InvalidRequest):
    code = "invalid_export"
    audience = "operator"


class AmbiguousStepKey(InvalidRequest):
    """Two steps without an explicit key are in flight under one parent; their order is not defined."""

    code = "ambiguous_step_key"


class InvalidImport(InvalidRequest):
    """A file of another program cannot be read; nothing of it was taken."""

    code = "invalid_import"
    audience = "operator"


class MediaNotTaken(InvalidRequest):
    """A model does not read an image, a sound or a PDF of its prompt; it was not asked."""

    code = "media_not_taken"
    audience = "operator"


class OutputInvalid(InvalidRequest):
    """A model's structured output does not fit the schema that was asked for."""

    code = "output_invalid"
    audience = "agent"


class UnknownModel(InvalidRequest):
    code = "unknown_model"
    audience = "operator"


class NotFound(ArtelierError):
    code = "not_found"


class Erased(NotFound):
    """Content whose key was destroyed."""

    code = "erased"
    mark: ClassVar[str] = "[erased]"
    """Text that is shown in place of the content."""


class Locked(Erased):
    """Content that is sealed, while the vault key is not here. With the key it can be read again."""

    code = "locked"
    mark = "[locked]"


class Conflict(ArtelierError):
    code = "conflict"


class SequenceConflict(Conflict):
    """A stream has moved on: facts `stream`, `expected`, `got` (both sequence numbers)."""

    code = "sequence_conflict"
    audience = "programmer"


class VersionConflict(Conflict):
    code = "version_conflict"
    audience = "agent"


class TenantConflict(Conflict):
    """Raised no more: a tenant that exists keeps what is stored. Programs that catch it still import it."""

    code = "tenant_conflict"


class StepConflict(Conflict):
    """A step key of this run is already taken by a recorded step."""

    code = "step_conflict"
    audience = "programmer"


class LeaseHeld(Conflict):
    """Another living process drives this run."""

    code = "lease_held"


class LeaseLost(Conflict):
    """This process no longer holds the run: its fencing token is stale and nothing was written."""

    code = "lease_lost"


class ReplayMismatch(Conflict):
    """The code asks for something else than what was recorded; `section` names the first difference."""

    code = "replay_mismatch"
    audience = "programmer"

    @property
    def section(self) -> str | None:
        return self.facts.get("section")


class RunEnded(Conflict):
    code = "run_ended"


class Refused(ArtelierError):
    code = "refused"


class AccessDenied(Refused):
    code = "access_denied"
    audience = "agent"


class NotGranted(Refused):
    code = "not_granted"
    audience = "agent"


class PriceUnknown(Refused):
    """No price is known for a model, so no upper bound can be reserved."""

    code = "price_unknown"


class Exhausted(ArtelierError):
    code = "exhausted"


class InsufficientFunds(Exhausted):
    code = "insufficient_funds"


class LimitReached(Exhausted):
    """A counter of a scope would pass its cap: facts `scope`, `unit`, `cap`, `used`, `asked`."""

    code = "limit_reached"


class PatternTimeout(Exhausted):
    """A tenant's pattern took too long over a text: fact `kind`. The text was not read and goes nowhere."""

    code = "pattern_timeout"


class QueueFull(Exhausted):
    code = "queue_full"


class TooManyAtOnce(QueueFull):
    """A tenant or user has as many of something open as they may."""

    code = "too_many_at_once"


class QuotaReached(Exhausted):
    """A tenant has stored as much as it may."""

    code = "quota_reached"


class External(ArtelierError):
    code = "external"


class TransientError(External):
    """Something outside failed in a way that may pass; `retry_after_s` if the other side said so."""

    code = "transient"

    @property
    def retry_after_s(self) -> float | None:
        return self.facts.get("retry_after_s")


class RateLimited(TransientError):
    code = "rate_limited"


class ProviderUnavailable(TransientError):
    code = "provider_unavailable"


class ModelTimeout(TransientError):
    code = "model_timeout"


class ModelRefusedCall(External):
    """The provider refused the request for good (bad request, bad key, content policy)."""

    code = "model_refused_call"


class ContextTooLong(ModelRefusedCall):
    code = "context_too_long"


class ModelReplyBroken(TransientError):
    """The provider's bytes could not be read as a reply (cut off, not JSON, wrong shape)."""

    code = "model_reply_broken"


class MissingKey(External):
    """A provider needs a key that is not in the environment."""

    code = "missing_key"


class ToolFailed(External):
    """A tool says that nothing happened; the model reads the message and the run goes on."""

    code = "tool_failed"
    audience = "agent"


class ToolResultInvalid(External):
    """A tool ran, but its result is not JSON data: the result is lost, its effects are not."""

    code = "tool_result_invalid"
    audience = "programmer"


class OfflineCannot(External):
    """The offline model cannot do this with certainty; the reason is the message."""

    code = "offline_cannot"
    audience = "operator"


class StoreUnavailable(External):
    code = "store_unavailable"


class StoreFull(StoreUnavailable):
    code = "store_full"


class StoreLocked(StoreUnavailable):
    code = "store_locked"


class StoreClosed(StoreUnavailable):
    code = "store_closed"


class Corrupt(ArtelierError):
    code = "corrupt"


class CorruptStore(Corrupt):
    code = "corrupt_store"


class HistoryGap(Corrupt):
    code = "history_gap"


class HistoryLost(Corrupt):
    """The database lacks commits that this process saw: a standby that was behind, or a backup, took over."""

    code = "history_lost"


class UnknownEvent(Corrupt):
    code = "unknown_event"


class NewerSchema(Corrupt):
    """The database was written by a newer Artelier; nothing was changed."""

    code = "newer_schema"


class Flow(Exception):
    """Not an error: a way out of a run that is neither success nor failure."""


class RunSuspended(Flow):
    """The run waits durably and this process does not wait with it: `run_id`, `status`, `reason`."""

    def __init__(
        self, run_id: str, *, status: str, reason: str | None = None, detail: str | None = None
    ) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(f"run {run_id} is {status}{why}" + (f" ({detail})" if detail else ""))
        self.run_id = run_id
        self.status = status
        self.reason = reason


class RunStopped(Flow):
    """A person ended the run: `run_id` and the reason they gave."""

    def __init__(self, run_id: str, *, reason: str | None = None) -> None:
        super().__init__(f"run {run_id} was cancelled" + (f": {reason}" if reason else ""))
        self.run_id = run_id
        self.reason = reason
