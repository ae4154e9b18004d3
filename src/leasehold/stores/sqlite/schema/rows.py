"""Where rows become values: each column is what it should be, or the row cannot be read.

SQLite keeps whatever it is given, so a column may hold another type than it should, text that is no
UTF-8 (which cannot even be fetched), a number without bounds, or a document of a newer version.
Reading that must not go wrong asks for `guarded` columns, which can always be fetched, and turns
each into its value with `value_of`, or learns what is wrong with it.

Statuses and events as the small numbers that are stored. Never renumber: append.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, get_args

import apsw
import msgspec

from leasehold.core.model.job import DependencyPolicy
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.retry import RetryPolicy
from leasehold.core.model.status import TERMINAL, Event, Status
from leasehold.env import from_micros

UNREADABLE: Final = (ValueError, TypeError, LookupError, ArithmeticError, msgspec.MsgspecError)
"""What making values of a row may raise if the row is not as it should be."""

MOMENT_MAX: Final = 253_402_300_799_999_999
"""The last microsecond of the year 9999, the last that Python knows."""

WHOLE_MAX: Final = 1 << 53
"""No number, version or count of ours comes near it."""

_metadata: Final[msgspec.json.Decoder[dict[str, Any]]] = msgspec.json.Decoder(dict[str, Any])
_retry: Final[msgspec.json.Decoder[RetryPolicy]] = msgspec.json.Decoder(RetryPolicy)


class Kind(Enum):
    """What a column holds; those that may be NULL say so."""

    WHOLE = "integer"
    WHOLE_OR_NULL = "integer or null"
    MOMENT = "moment"
    MOMENT_OR_NULL = "moment or null"
    SECONDS_OR_NULL = "seconds or null"
    TEXT = "text"
    TEXT_OR_NULL = "text or null"
    BYTES = "blob"
    BYTES_OR_NULL = "blob or null"


_TYPES: Final = {
    Kind.WHOLE: "'integer'",
    Kind.WHOLE_OR_NULL: "'integer', 'null'",
    Kind.MOMENT: "'integer'",
    Kind.MOMENT_OR_NULL: "'integer', 'null'",
    Kind.SECONDS_OR_NULL: "'integer', 'real', 'null'",
    Kind.TEXT: "'text'",
    Kind.TEXT_OR_NULL: "'text', 'null'",
    Kind.BYTES: "'blob'",
    Kind.BYTES_OR_NULL: "'blob', 'null'",
}
_NULL: Final = type(None)
PYTHON_TYPES: Final[dict[Kind, frozenset[type]]] = {
    Kind.WHOLE: frozenset({int}),
    Kind.WHOLE_OR_NULL: frozenset({int, _NULL}),
    Kind.MOMENT: frozenset({int}),
    Kind.MOMENT_OR_NULL: frozenset({int, _NULL}),
    Kind.SECONDS_OR_NULL: frozenset({int, float, _NULL}),
    Kind.TEXT: frozenset({str}),
    Kind.TEXT_OR_NULL: frozenset({str, _NULL}),
    Kind.BYTES: frozenset({bytes}),
    Kind.BYTES_OR_NULL: frozenset({bytes, _NULL}),
}
"""As what each kind is fetched, if it is not guarded."""
_TEXTS: Final = frozenset({Kind.TEXT, Kind.TEXT_OR_NULL})
_WHOLES: Final = frozenset({Kind.WHOLE, Kind.WHOLE_OR_NULL})
_MOMENTS: Final = frozenset({Kind.MOMENT, Kind.MOMENT_OR_NULL})
_WRONG: Final = "'of another type: ' || typeof({0})"


def guarded(expression: str, kind: Kind) -> str:
    """An expression that can be fetched whatever it holds; `value_of` makes its value of it."""
    fetched = f"CAST({expression} AS BLOB)" if kind in _TEXTS else expression
    return f"iif(typeof({expression}) IN ({_TYPES[kind]}), {fetched}, {_WRONG.format(expression)})"


def whole(column: str, greatest: int = WHOLE_MAX) -> str:
    """A column that is to hold a whole number from 0 on; 0 if it does not."""
    return f"iif(typeof({column}) = 'integer' AND {column} BETWEEN 0 AND {greatest}, {column}, 0)"


def value_of(name: str, kind: Kind, value: Any) -> Any:
    """The value of a guarded column; raises ValueError if it is not what it should be."""
    if isinstance(value, str):
        raise ValueError(f"{name} is {value}")  # noqa: TRY004  # one error for every damage
    if value is None:
        return None
    if kind in _TEXTS:
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError(f"{name} is no UTF-8") from None
    if kind in _MOMENTS and not 0 <= value <= MOMENT_MAX:
        raise ValueError(f"{name} is no moment: {value}")
    if kind in _WHOLES and not 0 <= value <= WHOLE_MAX:
        raise ValueError(f"{name} is {value}")
    if kind is Kind.SECONDS_OR_NULL:
        seconds_of(name, value)
    return value


def seconds_of(name: str, value: float) -> float:
    """A time span of a job; raises ValueError if no job could have been submitted with it."""
    # The comparison also refuses NaN, which is neither above nor below anything.
    if not 0 < value <= SECONDS_MAX:
        raise ValueError(f"{name} is {value}")
    return value


def retry_of(text: str) -> RetryPolicy:
    """A stored retry policy; raises ValueError for one that this version does not know."""
    try:
        return _retry.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(_about_policy(text) or f"bad retry policy: {error}") from None


def _about_policy(text: str) -> str | None:
    known = {policy.__struct_config__.tag for policy in get_args(RetryPolicy)}
    try:
        kind = msgspec.json.decode(text)["type"]
    except UNREADABLE:
        return None
    return None if kind in known else f"unknown retry policy {kind!r}"


def metadata_of(text: str) -> dict[str, Any]:
    """Stored metadata; raises ValueError if it is no JSON object."""
    try:
        return _metadata.decode(text)
    except msgspec.MsgspecError as error:
        raise ValueError(f"bad metadata: {error}") from None


def moment(micros: int | None) -> datetime | None:
    """A stored moment, where there is one."""
    return None if micros is None else from_micros(micros)


def problem_of(error: BaseException) -> str:
    """What is wrong with a row, from what reading it raised."""
    if isinstance(error, KeyError):
        return f"unknown code or lane {error}"
    return str(error) or type(error).__name__


_INSTEAD: Final = {Kind.WHOLE: 0, Kind.MOMENT: 0, Kind.TEXT: "", Kind.BYTES: b""}


class Lenient:
    """A statement whose rows can always be read: what is not as it should be is left out.

    For what people look at; a text that is no UTF-8 is shown with replacement characters.
    """

    def __init__(self, columns: Mapping[str, Kind], rest: str) -> None:
        self._kinds = tuple(columns.values())
        asked = ", ".join(guarded(column, kind) for column, kind in columns.items())
        self.statement = f"SELECT {asked} {rest}"  # our own names

    def rows(self, db: apsw.Connection, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """Run it."""
        rows: Any = db.cursor().execute(self.statement, values)
        for row in rows:
            yield tuple(map(_leniently, self._kinds, row))


def _leniently(kind: Kind, value: Any) -> Any:
    if kind in _TEXTS and isinstance(value, bytes):
        return value.decode(errors="replace")
    try:
        return value_of("", kind, value)
    except ValueError:
        return _INSTEAD.get(kind)


def document_of(text: str | bytes | None) -> Any:
    """A stored JSON document for people to look at; one that cannot be read as what it is."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except UNREADABLE:
        return f"(cannot be read: {text!r})"


def detail_of(text: str) -> dict[str, Any]:
    """The detail of an audit record, for people to look at."""
    document = document_of(text)
    return document if isinstance(document, dict) else {"detail": document}


def queues_of(text: str) -> list[str]:
    """The queues of a worker; none, if they cannot be read."""
    document = document_of(text)
    return document if isinstance(document, list) else []


STATUS_CODE: Final[dict[Status, int]] = {
    Status.SCHEDULED: 0,
    Status.BLOCKED: 1,
    Status.PENDING: 2,
    Status.RUNNING: 3,
    Status.FAILED: 4,
    Status.COMPLETED: 5,
    Status.DEAD: 6,
    Status.CANCELLED: 7,
}
STATUS_OF: Final = {code: status for status, code in STATUS_CODE.items()}
ENDED_STATUS: Final = f"""
    iif(finished.status IN ({", ".join(str(STATUS_CODE[each]) for each in sorted(TERMINAL))}),
        finished.status, {STATUS_CODE[Status.DEAD]})
"""
"""How a job has ended. One whose row does not say so has ended, and counts as a dead letter."""

EVENT_CODE: Final[dict[Event, int]] = {
    Event.CREATED: 0,
    Event.PROMOTED: 1,
    Event.UNBLOCKED: 2,
    Event.LEASED: 3,
    Event.COMPLETED: 4,
    Event.FAILED: 5,
    Event.DEAD: 6,
    Event.SNOOZED: 7,
    Event.RELEASED: 8,
    Event.RECOVERED: 9,
    Event.CANCELLED: 10,
    Event.REPLAYED: 11,
    Event.CANCEL_REQUESTED: 12,
    Event.REPRIORITIZED: 13,
    Event.HEARTBEAT_FAILED: 14,
    Event.ABANDONED: 15,
    Event.VERSION_MISMATCH: 16,
}
EVENT_OF: Final = {code: event for event, code in EVENT_CODE.items()}

POLICY_CODE: Final[dict[DependencyPolicy, int]] = {"cancel": 0, "fail": 1, "ignore": 2}
POLICY_OF: Final = {code: policy for policy, code in POLICY_CODE.items()}
