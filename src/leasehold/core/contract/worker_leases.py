"""What a store may say of the leases of workers."""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

REMOTE_LEASE_SECONDS: Final = 30.0
"""How long a remote worker's leases are, unless it, the job, its queue or a setting says more.

Nobody can prove the death of a worker on another machine: its jobs wait until their leases end. It
renews them every third of that, and stops what it runs when they are over for it.
"""


@runtime_checkable
class ShortWorkerLeases(Protocol):
    """A store that cannot prove the death of its workers, which therefore hold leases briefly.

    Only workers do, which renew their leases by themselves: a program that leases jobs itself gets
    what the setting says.
    """

    worker_lease_seconds: float


@runtime_checkable
class GivesBackInterrupted(Protocol):
    """A store whose `exchange` itself gives back the leases of a request that was interrupted.

    Its answer may take long, so no signal waits for it. Of other stores, whoever asks keeps the
    answer from being lost (`leasehold.interrupts`).
    """

    gives_back_interrupted: bool
