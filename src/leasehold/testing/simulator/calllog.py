"""The call log: every caller's requests and replies, and the store's effects, in its own order.

The two differ wherever a fault struck: a lost request was never applied, a lost reply was applied
but not heard, a duplicate was applied twice. The checker knows nothing but this log and the store's
public reads in the end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from leasehold.core.model.lease import StuckJob
from leasehold.env import ClockReading
from leasehold.errors import LeaseholdError


class CallFate(StrEnum):
    """A caller's view of its call."""

    OPEN = "open"
    """It has not returned, and never will if its process crashed."""
    OK = "ok"
    FAIL = "fail"
    """The store refused it."""
    UNKNOWN = "unknown"
    """No answer came: it may have happened or not."""


@dataclass(slots=True)
class LoggedCall:
    """One call as its caller saw it."""

    number: int
    process: str
    method: str
    arguments: Mapping[str, Any]
    invoked_at: float
    returned_at: float | None = None
    verdict: CallFate = CallFate.OPEN
    answer: Any = None


@dataclass(slots=True)
class Applied:
    """One call as the store carried it out."""

    number: int
    """Its place in the store's own order."""
    call: int
    step: int
    """The scheduler's step in which it arrived."""
    process: str
    method: str
    arguments: Mapping[str, Any]
    reading: ClockReading
    """The readings of the machine's clocks."""
    at: datetime
    """The store's clock."""
    answer: Any
    """Its answer; the error, if it raised one."""
    leases: Mapping[tuple[str, int], StuckJob]
    """Who held what right after it, by job id and version."""

    def __str__(self) -> str:
        answer = self.answer
        heard = f"{type(answer).__name__}({answer})" if isinstance(answer, Exception) else answer
        given = ", ".join(f"{name}={value!r}" for name, value in self.arguments.items())
        asked = f"{self.process}: {self.method}({given})"
        return f"#{self.number} {self.at:%H:%M:%S.%f} {asked} -> {heard}"

    def concerns(self, job_id: str) -> bool:
        """Whether the job is named in it anywhere."""
        return repr(job_id) in repr((self.arguments, self.answer))


@dataclass(slots=True)
class CallLog:
    """All calls of one run."""

    calls: list[LoggedCall] = field(default_factory=list)
    applied: list[Applied] = field(default_factory=list)

    def invoke(
        self, process: str, method: str, arguments: Mapping[str, Any], now: float
    ) -> LoggedCall:
        call = LoggedCall(len(self.calls), process, method, arguments, now)
        self.calls.append(call)
        return call

    def digest(self) -> str:
        """The same for two runs if and only if the same things happened in the same order."""
        digest = hashlib.sha256()
        for call in self.calls:
            parts = (call.number, call.process, call.method, call.invoked_at, call.returned_at)
            digest.update(f"{parts} {call.verdict} {call.answer!r}\n".encode())
        for applied in self.applied:
            digest.update(f"{applied}\n".encode())
        return digest.hexdigest()

    def tail(self, job_id: str | None, until: int, limit: int = 12) -> Iterable[Applied]:
        """The last things that happened to a job (or to any) up to this applied call."""
        return [
            applied
            for applied in self.applied[: until + 1]
            if job_id is None or applied.concerns(job_id)
        ][-limit:]


def unwrap(answer: Any) -> Any:
    """The caller's reply: the answer, or the error raised."""
    if isinstance(answer, LeaseholdError):
        raise answer
    return answer
