"""The operator's calls: sweep, check, back up, and describe the store."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from leasehold.core.contract.clock_store import ClockRepair
from leasehold.core.contract.local_store import local_part
from leasehold.core.contract.store import Store
from leasehold.core.model.durations import Seconds, seconds_or_none
from leasehold.core.model.lease import StuckJob, SweepReport
from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.pins import Pin
from leasehold.core.model.records import WorkerInfo
from leasehold.errors import UnsupportedError, WorkerNotFoundError
from leasehold.interrupts import import_whole

if TYPE_CHECKING:
    from leasehold.worker.supervisor import RequeueReport, Supervisor


class Upkeep:
    """The part of a TaskQueue that maintains its store."""

    def __init__(self, store: Store, actor: str) -> None:
        self.store = store
        self._actor = actor

    def now(self) -> datetime:
        """The store's clock, which never steps back; every time in a job is one of its times."""
        return self.store.now()

    def sweep(self) -> SweepReport:
        """Take back every job whose lease has expired or whose holder is proved dead, now.

        Workers do this regularly; call it if there are none, or if you do not want to wait.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.sweep().recovered
        0
        """
        return self.store.recover(actor=self._actor)

    def stop_worker(self, worker: str) -> WorkerInfo:
        """Ask a worker on any machine to stop.

        It leases no more jobs, finishes those it runs within its grace, and hands back the rest.

        It learns of this when it contacts the store: at once if it waits for jobs, at its next
        heartbeat if all its slots are taken. Raises WorkerNotFoundError if no such worker is
        registered, UnsupportedError for a consumer, which leases in a loop of its own.
        """
        known = next((each for each in self.store.workers() if each.id == worker), None)
        if known is None:
            raise WorkerNotFoundError(f"no worker {worker!r} is registered: it may have stopped")
        if known.is_consumer:
            raise UnsupportedError(
                f"{worker!r} is a consumer, which cannot be asked to stop: end its program"
            )
        # A later worker with the same id must not be stopped.
        self.store.pin("stop", worker, known.started_at.isoformat(), actor=self._actor)
        return known

    def mark_deploy(self, version: str, text: str = "") -> Pin:
        """Record that a version was deployed now: the dashboard marks it, and failures since then.

        Repeating it changes nothing: every process of the version may call this.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> queue.mark_deploy("v1.2", "new checkout").name
        'v1.2'
        >>> [mark.name for mark in queue.deploys()]
        ['v1.2']
        """
        return self.store.pin("deploy", version, text, actor=self._actor)

    def deploys(self) -> list[Pin]:
        """The deploy marks, the oldest first; the latest 200 are kept."""
        return self.store.pins("deploy")

    def forget_deploy(self, version: str) -> bool:
        """Delete a deploy mark; False if there is none of that version."""
        return self.store.unpin("deploy", version, actor=self._actor) is not None

    def stuck(
        self, silent_seconds: Seconds | None = 120.0, running_seconds: Seconds | None = None
    ) -> list[StuckJob]:
        """Running jobs without a heartbeat for this long, or running for this long.

        The longest silent come first. None disables either rule.
        """
        return self._supervisor().find_stuck(
            _bounded("silent_seconds", silent_seconds),
            _bounded("running_seconds", running_seconds),
        )

    def requeue_stuck(
        self,
        silent_seconds: Seconds | None = 120.0,
        running_seconds: Seconds | None = None,
        *,
        reset_attempts: bool = False,
    ) -> RequeueReport:
        """Take the stuck jobs from their holders, so that they run again; see `Supervisor`.

        Each leaves an audit record.

        >>> from leasehold import TaskQueue
        >>> queue = TaskQueue("memory://", num_workers=0)
        >>> _ = queue.submit("mail", "a@b.c", job_id="letter")
        >>> lease = queue.lease(worker="me")
        >>> [each.job.job_id for each in queue.requeue_stuck(silent_seconds=0).requeued]
        ['letter']
        """
        return self._supervisor().requeue(
            silent_seconds=_bounded("silent_seconds", silent_seconds),
            running_seconds=_bounded("running_seconds", running_seconds),
            reset_attempts=reset_attempts,
            reason=f"requeued by {self._actor}",
        )

    def lost_workers(self) -> list[str]:
        """Workers that are proved dead and whose jobs the next sweep takes back, by id.

        Empty on a store that cannot prove death: there, jobs wait for their lease to end.
        """
        return sorted(lost_workers(self.store))

    def check(self) -> list[str]:
        """Look for damage and broken invariants; returns the problems found."""
        return self.store.check()

    def repair_clock(self) -> ClockRepair:
        """Set the store's clock back to the wall clock, which was once far ahead.

        Refused while workers live or jobs run; see docs/leases.md, "Clocks".
        """
        return local_part(self.store, "repairing the clock").repair_clock(actor=self._actor)

    def backup(self, path: str | os.PathLike[str], *, replace: bool = False) -> None:
        """Write a consistent copy of the store while it is in use.

        An existing file is replaced only with `replace`, in one step, when the copy is complete.
        """
        instead = (
            "run it where the store lives, or let the service write one there, by POST "
            "/api/v1/backups with the token of an admin, if it was started with --backup-dir"
        )
        local = local_part(self.store, "a backup", instead)
        local.backup(os.fspath(path), actor=self._actor, replace=replace)

    def describe(self) -> Mapping[str, Any]:
        """A description of the store: kind, place, durability, versions."""
        return self.store.describe()

    def _supervisor(self) -> Supervisor:
        import_whole("leasehold.worker.supervisor")
        from leasehold.worker.supervisor import Supervisor

        return Supervisor(self.store, actor=self._actor)


def lost_workers(store: Store) -> set[str]:
    """Workers that are proved dead; none on a store that cannot prove it."""
    import_whole("leasehold.worker.sweep")
    from leasehold.worker.sweep import ProvesDeath

    return store.dead_workers() if isinstance(store, ProvesDeath) else set()


def _bounded(name: str, seconds: Seconds | None) -> float | None:
    """A duration limited to what a store can compute with; nothing has run for longer."""
    given = seconds_or_none(name, seconds)
    return None if given is None else min(given, SECONDS_MAX)
