"""How long a lease is: the most specific value wins, within what the settings allow (LEA-2)."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from leasehold.core.model.lease import LeaseRequest
from leasehold.core.rules.settings_in_force import SettingsInForce
from leasehold.env import from_micros


class LeaseTerm(NamedTuple):
    """The length of a lease, and its expiry."""

    seconds: float
    micros: int
    expires_at: datetime


class LeaseLengths(dict[tuple[str, float | None], LeaseTerm]):
    """The lengths of the leases for a request, by the task and the value of the job.

    Each is computed once, so that a job costs only a lookup.
    """

    __slots__ = ("_now", "_request", "_settings")

    def __init__(self, request: LeaseRequest, settings: SettingsInForce, now: int) -> None:
        self._request = request
        self._settings = settings
        self._now = now

    def __missing__(self, job: tuple[str, float | None]) -> LeaseTerm:
        task, own_seconds = job
        request, settings = self._request, self._settings
        by_task = request.lease_seconds_by_task
        asked = (
            request.lease_seconds_override
            or own_seconds
            or (by_task and by_task.get(task))
            or request.lease_seconds
            or settings.lease_seconds
        )
        seconds = min(asked, settings.extension_seconds_max)
        micros = round(seconds * 1e6)
        expires_at = from_micros(self._now + micros)
        # In half the time of its own name: most leases take one job.
        length = self[job] = tuple.__new__(LeaseTerm, (seconds, micros, expires_at))
        return length
