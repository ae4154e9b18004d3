"""The health checks of a store, one small function each: the state, the fault, the remedy.

Every check gets the same facts and returns a finding, or None if it does not apply: a store in
memory has no disk.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

import msgspec

from leasehold.core.model.advice import words, worker_start
from leasehold.core.model.durations import duration_text
from leasehold.core.model.lease import StuckJob
from leasehold.core.model.phrases import counted
from leasehold.core.model.records import WorkerInfo, is_at_work, is_late, workers_at_work
from leasehold.core.model.retention import CleanUp
from leasehold.core.model.schedule import Schedule
from leasehold.core.model.settings import HEARTBEAT_SECONDS
from leasehold.observe.findings import Finding, Level
from leasehold.observe.redis_health import redis
from leasehold.observe.writing_health import old_transaction, seal, write_lock

SKEW_SECONDS_WARNING: Final = 2.0
SKEW_SECONDS_CRITICAL: Final = 60.0
FREE_BYTES_WARNING: Final = 1024**3
FREE_BYTES_CRITICAL: Final = 64 * 1024**2
WAL_BYTES_WARNING: Final = 256 * 1024**2
WORKER_SILENT_SECONDS: Final = 120.0
OVERDUE_SECONDS_WARNING: Final = 10.0
"""A worker that is being restarted is back by then."""
OVERDUE_SECONDS_CRITICAL: Final = 300.0
LOST_WITH_THE_MACHINE: Final = frozenset({"tmpfs", "ramfs"})
LOST_WITH_THE_CONTAINER: Final = frozenset({"overlay", "aufs"})


class Facts(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a store at one moment."""

    store: Mapping[str, Any]
    """The store's own description (`describe`)."""
    now: datetime
    """The store's clock."""
    wall_clock: datetime
    workers: list[WorkerInfo] = []
    beat_seconds: float = HEARTBEAT_SECONDS
    """How often workers send a heartbeat."""
    lost_workers: list[str] = []
    """Workers that are proved dead and not yet swept."""
    gone_consumers: list[WorkerInfo] = []
    """Consumers of this machine whose process no longer exists."""
    stale_pids: list[int] = []
    """Processes that left a pid file behind and are proved gone."""
    stuck: list[StuckJob] = []
    """Running jobs whose holder is silent or proved dead, or whose lease has expired."""
    unrunnable: dict[str, str] = {}
    """Tasks whose jobs workers handed back because they cannot run them, and the latest reason."""
    schedules: list[Schedule] = []
    cleanup: CleanUp | None = None
    """The latest clean-up."""
    dead_letters: int = 0


def examine(facts: Facts) -> list[Finding]:
    """The findings of every check."""
    findings = [check(facts) for check in CHECKS]
    return [finding for finding in findings if finding is not None]


# -- the file ----------------------------------------------------------------------------------


def sqlite_version(facts: Facts) -> Finding | None:
    """The store refuses a SQLite that can lose commits, so one that opened is good."""
    version = facts.store.get("sqlite_version")
    return None if version is None else _ok("sqlite_version", f"SQLite {version}")


def schema(facts: Facts) -> Finding | None:
    """Opening a store brings its schema up to date."""
    version = facts.store.get("schema_version")
    return None if version is None else _ok("schema", f"version {version}, up to date")


def journal_mode(facts: Facts) -> Finding | None:
    """Readers and the writer only leave each other alone with a write-ahead log."""
    mode = facts.store.get("journal_mode")
    if mode is None or mode == "wal":
        return None if mode is None else _ok("journal_mode", "WAL")
    return Finding(
        check="journal_mode",
        level=Level.CRITICAL,
        found=f"{mode}, not WAL",
        meaning="another program changed the file: readers and writers block each other",
        advice="stop everything that uses the store, then run any queuectl command on it",
    )


def file_system(facts: Facts) -> Finding | None:
    """A store belongs on a local disk that outlives the process."""
    kind = facts.store.get("file_system")
    if kind is None:
        return None
    if kind in LOST_WITH_THE_MACHINE:
        lost = "it is kept in memory: a restart of the machine loses every job"
    elif kind in LOST_WITH_THE_CONTAINER:
        lost = "it is a container's own layer: the store is gone when the container is removed"
    else:
        return _ok("file_system", kind or "unknown")
    return Finding(
        check="file_system",
        level=Level.WARNING,
        found=kind,
        meaning=lost,
        advice="keep the store on a disk or a mounted volume",
    )


def permissions(facts: Facts) -> Finding | None:
    """Payloads may hold secrets: only the owner should read the file."""
    if "warning" not in facts.store:
        return None
    if facts.store["warning"] is None:
        return _ok("permissions", "readable by its owner only")
    return Finding(
        check="permissions",
        level=Level.WARNING,
        found=str(facts.store["warning"]),
        meaning="other users of this machine can read payloads and results",
        advice=f"chmod 600 {facts.store['path']}",
    )


def disk(facts: Facts) -> Finding | None:
    """Submits are refused when the disk is nearly full."""
    free = facts.store.get("free_bytes")
    if free is None:
        return None
    found = f"{free / 1024**3:,.1f} GiB free"
    if free >= FREE_BYTES_WARNING:
        return _ok("disk", found)
    return Finding(
        check="disk",
        level=Level.CRITICAL if free < FREE_BYTES_CRITICAL else Level.WARNING,
        found=found if free >= FREE_BYTES_CRITICAL else f"{free / 1024**2:,.0f} MiB free",
        meaning="below 16 MiB new jobs are refused, so that running ones can still finish",
        advice="free some space; queuectl prune --emergency deletes jobs that have ended",
    )


def write_ahead_log(facts: Facts) -> Finding | None:
    """The log shrinks again unless a program never ends its read transaction."""
    size = facts.store.get("wal_bytes")
    if size is None:
        return None
    found = f"{size / 1024**2:,.1f} MiB"
    if size <= WAL_BYTES_WARNING:
        return _ok("write_ahead_log", found)
    return Finding(
        check="write_ahead_log",
        level=Level.WARNING,
        found=found,
        meaning="a program keeps a read transaction open, so the log cannot be emptied",
        advice="find the program that has the file open (lsof), and end its transaction",
    )


# -- time --------------------------------------------------------------------------------------


def clock(facts: Facts) -> Finding:
    """The store's time never steps back; while the wall clock is behind, it goes at half pace."""
    ahead = (facts.now - facts.wall_clock).total_seconds()
    if ahead < -SKEW_SECONDS_WARNING:
        return Finding(
            check="clock",
            level=Level.WARNING,
            found=f"{duration_text(-ahead)} ahead of the store's time",
            meaning="the clock has jumped; the store follows it only after a minute",
            advice="none needed if the clock is right; otherwise correct it within the minute",
        )
    if ahead <= SKEW_SECONDS_WARNING:
        return _ok("clock", "in step with the store")
    return Finding(
        check="clock",
        level=Level.CRITICAL if ahead > SKEW_SECONDS_CRITICAL else Level.WARNING,
        found=f"{duration_text(ahead)} behind the store's time",
        meaning=(
            "the clock was ahead once, or is behind now: schedules and due times come early by "
            "that much, and delays and leases last twice as long until it has caught up"
        ),
        advice=(
            "correct the clock and keep it synchronized (NTP); if the store's time is wrong, stop "
            "the workers and run queuectl check --repair-clock"
        ),
    )


def schedules(facts: Facts) -> Finding:
    """A schedule that cannot submit its job records why."""
    troubled = [each for each in facts.schedules if each.error is not None]
    if not troubled:
        return _ok("schedules", f"{counted(len(facts.schedules), 'schedule')}, none with an error")
    return Finding(
        check="schedules",
        level=Level.WARNING,
        found=f"{troubled[0].name}: {troubled[0].error}{_others(len(troubled))}",
        meaning="its tick is due but its job was refused; it is tried again",
        advice=f"queuectl schedule show {words(troubled[0].name)}",
    )


def overdue_schedules(facts: Facts) -> Finding:
    """Workers fire schedules, within a second or so of each tick."""
    late = {
        each.name: (facts.now - each.due_at).total_seconds()
        for each in facts.schedules
        if each.due_at is not None and each.error is None
    }
    overdue = [each for each in facts.schedules if late.get(each.name, 0) > OVERDUE_SECONDS_WARNING]
    if not overdue:
        return _ok("overdue_schedules", "none")
    first = max(overdue, key=lambda each: late[each.name])
    is_served = bool(workers_at_work(facts.workers, facts.lost_workers, facts.now))
    return Finding(
        check="overdue_schedules",
        level=Level.CRITICAL if late[first.name] > OVERDUE_SECONDS_CRITICAL else Level.WARNING,
        found=f"{first.name} is {duration_text(late[first.name])} overdue{_others(len(overdue))}",
        meaning="workers are running, but none has fired it"
        if is_served
        else "workers fire schedules, and none is running",
        advice="look at the workers: queuectl worker status, and queuectl worker logs"
        if is_served
        else worker_start(first.queue, first.task),
    )


def orphaned_schedules(facts: Facts) -> Finding:
    """A schedule whose declaration was removed from the code keeps ticking."""
    orphaned = [each for each in facts.schedules if each.draft.orphaned]
    if not orphaned:
        return _ok("orphaned_schedules", "none")
    first = orphaned[0]
    return Finding(
        check="orphaned_schedules",
        level=Level.WARNING,
        found=f"{first.name}{_others(len(orphaned))}",
        meaning=f"{first.draft.declared_in} no longer declares it, but it still ticks",
        advice="queuectl schedule prune removes orphaned schedules",
    )


def clean_ups(facts: Facts) -> Finding:
    """A clean-up works in short writes with long pauses, and is over within a minute."""
    latest = facts.cleanup
    if latest is None:
        return _ok("clean_ups", "none has been due yet")
    if not latest.is_slow:
        return _ok("clean_ups", f"the latest took {duration_text(latest.duration_seconds)}")
    goes_on = latest.ended_at is None
    return Finding(
        check="clean_ups",
        level=Level.WARNING,
        found=f"clean-up {latest.run} {'has taken' if goes_on else 'took'} "
        f"{duration_text(latest.duration_seconds)} ({duration_text(latest.lock_seconds)} under the "
        f"write lock) for {counted(latest.pruned, 'job')}{' so far' if goes_on else ''}",
        meaning="more jobs end between two clean-ups than one can remove in a minute, or the disk "
        "is slow",
        advice="clean up more often: queuectl config set prune_interval 1h",
    )


# -- workers and leases ------------------------------------------------------------------------


def workers(facts: Facts) -> Finding:
    """Workers send heartbeats, and are proved dead by a lock that is free."""
    if facts.lost_workers:
        return Finding(
            check="workers",
            level=Level.WARNING,
            found=f"{facts.lost_workers[0]} died{_others(len(facts.lost_workers))}",
            meaning="its process ended without signing off; the next sweep takes its jobs back",
            advice="queuectl sweep, then start the worker again",
        )
    abandoned = [consumer for consumer in facts.gone_consumers if consumer.running]
    if abandoned:
        first = abandoned[0]
        return Finding(
            check="workers",
            level=Level.WARNING,
            found=f"consumer {first.id} is gone and holds {counted(first.running, 'job')}"
            + _others(len(abandoned)),
            meaning=f"its process {first.pid} ended without signing off; the jobs wait for their "
            "leases to end",
            advice="wait, or take them back: queuectl stuck --silent 1m --requeue",
        )
    silent = [worker for worker in facts.workers if not is_at_work(worker, facts.now)]
    if silent:
        return Finding(
            check="workers",
            level=Level.WARNING,
            found=f"{silent[0].id} has been silent since "
            f"{silent[0].heartbeat_at.isoformat(timespec='seconds')}" + _others(len(silent)),
            meaning="it is stopped, starved or cut off; its jobs wait for their leases to end",
            advice=_where_to_look(silent[0]),
        )
    late = [each for each in facts.workers if is_late(each, facts.now, facts.beat_seconds)]
    if late:
        silence = duration_text(int((facts.now - late[0].heartbeat_at).total_seconds()))
        return Finding(
            check="workers",
            level=Level.WARNING,
            found=f"{late[0].id} is late: its last heartbeat was {silence} ago{_others(len(late))}",
            meaning=f"one is due every {duration_text(facts.beat_seconds)}: it may be stopped, "
            "starved or cut off; its jobs are taken back when their leases end",
            advice=_where_to_look(late[0]),
        )
    alive = len(facts.workers) - len(facts.gone_consumers)
    return _ok("workers", f"{counted(alive, 'worker')} alive")


def _where_to_look(worker: WorkerInfo) -> str:
    if worker.pid is None:
        return "look at the consumer that leases under this name"
    return f"look at process {worker.pid} on {worker.host}"


def pid_files(facts: Facts) -> Finding:
    """A pid file whose process is gone was left by a worker that was killed."""
    if not facts.stale_pids:
        return _ok("pid_files", "none is stale")
    return Finding(
        check="pid_files",
        level=Level.WARNING,
        found=f"process {facts.stale_pids[0]} is gone{_others(len(facts.stale_pids))}",
        meaning="a worker process was killed and left its pid file behind",
        advice="queuectl sweep; then queuectl worker status, which removes stale pid files",
    )


def leases(facts: Facts) -> Finding:
    """An orphaned lease is one whose holder is not expected to come back."""
    alive = {worker.id for worker in facts.workers} - set(facts.lost_workers)
    orphans = [
        job for job in facts.stuck if job.lease_expires_at <= facts.now or job.worker not in alive
    ]
    if not orphans:
        return _ok("leases", "none is orphaned")
    first = orphans[0]
    expired = sum(job.lease_expires_at <= facts.now for job in orphans)
    return Finding(
        check="leases",
        level=Level.CRITICAL if expired else Level.WARNING,
        found=f"job {first.job_id} is held by {first.worker}, which is gone or silent"
        + _others(len(orphans)),
        meaning="leases have expired and no worker sweeps"
        if expired
        else "these jobs wait until the lease ends or a sweep proves the holder dead",
        advice="queuectl sweep",
    )


def unknown_tasks(facts: Facts) -> Finding:
    """Jobs that every worker hands back wait for a worker that knows their task."""
    if not facts.unrunnable:
        return _ok("unknown_tasks", "none handed back")
    task, reason = next(iter(facts.unrunnable.items()))
    return Finding(
        check="unknown_tasks",
        level=Level.WARNING,
        found=f"task {task}{_others(len(facts.unrunnable))}: "
        f"{reason.removeprefix(f'task {task!r} ')}",
        meaning="workers lease these jobs, cannot run them, and hand them back",
        advice=(
            "start a worker that knows the task (--import its module), or with --allow-commands; "
            "if the task was renamed, add the old name to its aliases"
        ),
    )


def dead_letters(facts: Facts) -> Finding:
    """Dead letters wait for a person."""
    if not facts.dead_letters:
        return _ok("dead_letters", "none")
    return Finding(
        check="dead_letters",
        level=Level.WARNING,
        found=f"{facts.dead_letters:,}",
        meaning="these jobs will not run again unless you retry them",
        advice="queuectl dlq list; then queuectl dlq retry, or queuectl dlq purge",
    )


CHECKS: Final[tuple[Callable[[Facts], Finding | None], ...]] = (
    sqlite_version,
    schema,
    journal_mode,
    file_system,
    permissions,
    disk,
    write_ahead_log,
    write_lock,
    seal,
    old_transaction,
    redis,
    clock,
    workers,
    pid_files,
    leases,
    unknown_tasks,
    schedules,
    overdue_schedules,
    orphaned_schedules,
    clean_ups,
    dead_letters,
)


def _ok(check: str, found: str) -> Finding:
    return Finding(check=check, level=Level.OK, found=found)


def _others(count: int) -> str:
    return "" if count == 1 else f", and {count - 1} more"
