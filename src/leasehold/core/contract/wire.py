"""The contract's verbs as data: how a call of a store and its answer cross a network.

Everything here is derived from the signatures in `core.contract.store`: a verb's arguments are one
MessagePack map of the contract's own types, and its answer is another value of those types. An
error among the answers is a short array; the transport carries an error that is raised.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, Final, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

import msgspec

from leasehold.core.contract.blob_calls import BlobCarrier
from leasehold.core.contract.large_numbers import decoder, encode_message
from leasehold.core.contract.metrics_store import MetricsStore
from leasehold.core.contract.queue_rules import QueueRules
from leasehold.core.contract.retention_store import RetentionStore
from leasehold.core.contract.schedule_store import ScheduleStore
from leasehold.core.contract.settings_store import SettingsStore
from leasehold.core.contract.store import Store
from leasehold.core.contract.token_store import TokenStore
from leasehold.core.model.error_documents import error_document, error_from
from leasehold.core.model.lease import Exchange, Lease, Renewal, Settled, Settlement
from leasehold.core.model.records import WorkerInfo
from leasehold.error_codes import CodedError
from leasehold.errors import (
    InvalidJobError,
    InvalidQueueError,
    InvalidRetentionError,
    InvalidScheduleError,
    InvalidSettingError,
    InvalidTokenError,
    InvalidWindowError,
    LeaseholdError,
)

MEDIA_TYPE: Final = "application/vnd.leasehold.store+msgpack"
"""The media type of requests and answers; errors are problem+json, as everywhere."""
SERVER_ONLY: Final = frozenset({"signing_key", "submit_as"})
"""Calls for the server itself (`core.contract.token_store`)."""
_NO_CALLS: Final = frozenset({"close", "register_worker", "subscribe"})
"""Calls that a remote store derives from other calls."""

STREAMED: Final = frozenset({"exchange_once", "hints", "submit_once", "renew", "get", "stats"})
"""Frequently called verbs: over gRPC, all calls of one verb share a stream.

All of them may safely be repeated: a stream that ends does not tell which calls were carried out.
"""

ErrorData = tuple[str, str, dict[str, Any]]
"""An error among the answers: its code, its message and its other fields."""


class ExchangeData(msgspec.Struct, frozen=True):
    """An exchange, with the secrets of its leases."""

    settled: list[Settled | ErrorData]
    leases: list[Lease]
    next_due_at: datetime | None
    next_tick_at: datetime | None
    settings_generation: int
    at: datetime | None
    secrets: list[str]
    """One per lease: a call under the lease shows its secret."""


class HintsSince(msgspec.Struct, frozen=True):
    """The hints for a listener since a cursor."""

    cursor: str
    is_ready: bool = False
    ended: list[str] | None = []
    """None when it is not known which, as below."""
    cancel_requested: list[str] | None = []


class Verb(NamedTuple):
    """A method of the contract, for both ends of a connection."""

    name: str
    arguments: msgspec.msgpack.Decoder[Any]
    """Decodes a struct with the arguments, and `lease_secrets`."""
    answer: msgspec.msgpack.Decoder[Any]


_STORE_CHECKS: Final = frozenset(
    {"window_seconds", "minutes", "days", "metrics", "since", "until", "value"}
)
"""Arguments that every store checks itself, with its own messages (MET-4, STT-2)."""


def _crossing(kind: Any) -> Any:
    """The type in which a value of this type crosses: the same type, except for errors."""
    if kind is Exchange:
        return ExchangeData
    if isinstance(kind, type) and issubclass(kind, CodedError):
        return ErrorData
    if get_origin(kind) is Literal:
        return str  # the store checks which names exist, with its own messages
    origin, inner = get_origin(kind), tuple(_crossing(each) for each in get_args(kind))
    if origin in (Union, types.UnionType):
        return Union[inner]  # noqa: UP007  # made of a tuple
    return list[inner[0]] if origin in (list, Collection) else kind  # type: ignore[valid-type]


_REQUIRED: Final = inspect.Parameter.empty


def _verb(name: str, arguments: Mapping[str, tuple[Any, Any]], answer: Any) -> Verb:
    fields: list[Any] = []
    for each, (kind, default) in arguments.items():
        crossing = Any if each in _STORE_CHECKS else _crossing(kind)
        fields.append((each, crossing) if default is _REQUIRED else (each, crossing, default))
    fields.append(("lease_secrets", list[str], []))
    asked = msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)
    return Verb(name, decoder(asked), decoder(_crossing(answer)))


def _from_signature(name: str, part: type = Store) -> Verb:
    method = getattr(part, name)
    hints = get_type_hints(method)
    parameters = inspect.signature(method).parameters
    arguments = {
        each: (hints[each], known.default) for each, known in parameters.items() if each != "self"
    }
    return _verb(name, arguments, hints["return"])


VERBS: Final[dict[str, Verb]] = {
    name: _from_signature(name)
    for name in dir(Store)
    if not name.startswith("_") and name not in _NO_CALLS | SERVER_ONLY
} | {
    "enter_worker": _verb("enter_worker", {"info": (WorkerInfo, _REQUIRED)}, None),
    "leave_worker": _verb("leave_worker", {"info": (WorkerInfo, _REQUIRED)}, None),
    "hints": _verb(
        "hints",
        {"cursor": (str | None, None), "wait_seconds": (float, 0.0), "ends": (bool, True)},
        HintsSince,
    ),
    "put_blob": _from_signature("put_blob", BlobCarrier),
    "get_blob": _from_signature("get_blob", BlobCarrier),
}
"""Every call that crosses, by name. The three after those of the contract stand for
`register_worker`, for closing such a life, and for `subscribe`.
"""


def leases_in(verb: str, arguments: Mapping[str, Any]) -> list[tuple[str, int]]:
    """The leases that a call names, by job id and version, in order."""
    if verb in ("exchange", "exchange_once"):
        settlements: list[Settlement] = arguments["settlements"]
        return [(each.job_id, each.version) for each in settlements]
    if verb == "renew":
        renewals: list[Renewal] = arguments["renewals"]
        return [(each.job_id, each.version) for each in renewals]
    if verb in ("report_progress", "append_log", "tell"):
        return [(arguments["job_id"], arguments["version"])]
    if verb == "put_blob" and arguments["kind"] == "result":
        return [(arguments["owner"], arguments["version"])]
    return []


_NONSENSE: Final[tuple[tuple[type, type[LeaseholdError]], ...]] = (
    (ScheduleStore, InvalidScheduleError),
    (QueueRules, InvalidQueueError),
    (SettingsStore, InvalidSettingError),
    (TokenStore, InvalidTokenError),
    (MetricsStore, InvalidWindowError),
    (RetentionStore, InvalidRetentionError),
)


def nonsense(verb: str) -> type[LeaseholdError]:
    """The error that the verb would raise for arguments that break the contract.

    >>> nonsense("update_queue").__name__, nonsense("submit").__name__
    ('InvalidQueueError', 'InvalidJobError')
    """
    return next((error for part, error in _NONSENSE if verb in vars(part)), InvalidJobError)


def encode(value: Any) -> bytes:
    """Arguments or an answer as they cross; TypeError or ValueError for values that are no data."""
    return encode_message(value, _as_data)


def _as_data(value: Any) -> Any:
    if isinstance(value, CodedError):
        return tuple(error_document(value).values())
    for kind in (str, int, float):
        if isinstance(value, kind):
            return kind(value)
    raise TypeError(f"{value!r} is no data")


def crossing_exchange(answer: Exchange, secrets: list[str]) -> ExchangeData:
    """An exchange, as it crosses."""
    return ExchangeData(
        answer.settled,  # type: ignore[arg-type]  # `encode` makes data of the errors
        answer.leases,
        answer.next_due_at,
        answer.next_tick_at,
        answer.settings_generation,
        answer.at,
        secrets,
    )


def restored(answer: Any) -> Any:
    """An answer as the store returned it, with its errors."""
    if isinstance(answer, tuple):
        code, message, fields = answer
        return error_from({"code": code, "message": message, "fields": fields})
    if isinstance(answer, list):
        return [restored(each) for each in answer]
    if isinstance(answer, ExchangeData):
        return Exchange(
            restored(answer.settled),
            answer.leases,
            answer.next_due_at,
            answer.next_tick_at,
            answer.settings_generation,
            answer.at,
        )
    return answer
