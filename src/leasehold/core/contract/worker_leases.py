"""The worker leases of a store that cannot prove the death of its workers."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

REMOTE_LEASE_SECONDS: Final = 30.0
"""The length of a remote worker's leases, unless the worker, the job, its queue or a setting gives
a longer one.

Nobody can prove the death of a worker on another machine: its jobs wait until their leases end. The
worker renews them at a third of that, and stops its runs when they are over by its own clock.
"""


@runtime_checkable
class ShortWorkerLeases(Protocol):
    """A store that cannot prove the death of its workers, which therefore hold leases briefly.

    This applies only to workers, which renew their leases automatically: a program that leases jobs
    itself gets the length that the setting says.
    """

    worker_lease_seconds: float


@runtime_checkable
class GivesBackInterrupted(Protocol):
    """A store whose `exchange` itself gives back the leases of a request that was interrupted.

    Its answer may take long, so no signal waits for it. Of other stores, whoever asks keeps the
    answer from being lost (`leasehold.interrupts`).
    """

    gives_back_interrupted: bool
