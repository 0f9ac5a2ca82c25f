"""Events, streams, blobs, hash chain, views: the truth that everything else is folded from."""

from artelier.log.blobs import Blob, DataKey, blob_name, blob_ref, make_blob, prepared_blob
from artelier.log.chain import GENESIS
from artelier.log.contract import (
    Applied,
    Batch,
    Fence,
    LeaseEnd,
    LeaseRequest,
    Receipt,
    Store,
    StreamAppend,
    Tx,
    View,
)
from artelier.log.erasure.content_removal import ContentErased, Erasing, Wiped, check_subject
from artelier.log.erasure.garbage_collection import Collected
from artelier.log.event import (
    BlobRef,
    Draft,
    Event,
    EventData,
    RawDraft,
    Stream,
    control_stream,
    event,
    is_known,
    registered,
    run_stream,
    tenant_stream,
    upcaster,
)
from artelier.log.rate_windows import PRESENT_US, WAITS, Asked, Claim, Taken
from artelier.log.sqlite.store import SqliteStore
from artelier.log.stored_values import decode_stored, missing_mark, stored_blob
from artelier.log.tenant_turns import TenantTurns
from artelier.log.verify import Report, verify_store

__all__ = [
    "GENESIS",
    "PRESENT_US",
    "WAITS",
    "Applied",
    "Asked",
    "Batch",
    "Blob",
    "BlobRef",
    "Claim",
    "Collected",
    "ContentErased",
    "DataKey",
    "Draft",
    "Erasing",
    "Event",
    "EventData",
    "Fence",
    "LeaseEnd",
    "LeaseRequest",
    "RawDraft",
    "Receipt",
    "Report",
    "SqliteStore",
    "Store",
    "Stream",
    "StreamAppend",
    "Taken",
    "TenantTurns",
    "Tx",
    "View",
    "Wiped",
    "blob_name",
    "blob_ref",
    "check_subject",
    "control_stream",
    "decode_stored",
    "event",
    "is_known",
    "make_blob",
    "missing_mark",
    "prepared_blob",
    "registered",
    "run_stream",
    "stored_blob",
    "tenant_stream",
    "upcaster",
    "verify_store",
]
