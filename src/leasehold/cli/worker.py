"""`worker start`, `stop`, `restart`, `status` and `logs`: the processes that run jobs."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from leasehold.cli.command import command, group
from leasehold.cli.exits import Exit
from leasehold.cli.layout import by_their_ends
from leasehold.cli.options import DURATION, NAMES, LeaseLength
from leasehold.cli.output import Column, Document, cell, emit, emit_one
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.workers.naming import Meant, meant
from leasehold.cli.workers.pidfile import PidFile, pid_files
from leasehold.cli.workers.plan import (
    GRACE_SECONDS,
    METRICS_HOST,
    SLOTS,
    CrewPlan,
    default_log,
    store_name,
    workers_folder,
)
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.advice import START_A_WORKER
from leasehold.core.model.phrases import counted, listed
from leasehold.documents.records import document_of
from leasehold.errors import StoreError


def _jobs(current: Sequence[Document]) -> str:
    """The jobs of a worker, in a few words: the ends of their ids, and their tasks."""
    ids = by_their_ends([str(job["id"]) for job in current])
    return ", ".join(f"{end} {job['task']}" for job, end in zip(current, ids, strict=True)) or "-"


LOG_LINES = 20
STATUS_COLUMNS = (
    Column("id", "WORKER", fit="middle", least=16),
    Column("kind", "KIND", fit="keep", spare=4),
    Column("state", "STATE", fit="keep"),
    Column("pid", "PID", right=True),
    Column("crew_pid", "CREW", right=True, spare=5),
    Column("queues", "QUEUES", ",".join, fit="cut", spare=1),
    Column("slots", "SLOTS", right=True, spare=3),
    Column("running", "RUNNING", right=True),
    Column("jobs", "JOBS", _jobs, fit="cut", spare=6, least=16),
    Column("started_at", "SINCE", fit="keep", spare=7),
    Column("heartbeat_at", "LAST HEARTBEAT", fit="keep", spare=2),
)
RESTART_COLUMNS = (
    Column("pid", "PID", right=True),
    Column("restarted", "RESTARTED"),
)
STOP_COLUMNS = (
    Column("pid", "PID", right=True),
    Column("role", "WHAT"),
    Column("stopped", "STOPPED"),
    Column("killed", "KILLED"),
)


@group
def worker() -> None:
    """Run jobs: start, stop and inspect worker processes."""


@command(of=worker)
@click.option("--count", "-n", type=click.IntRange(1, 1000), default=1, show_default=True,
              help="Worker processes.")  # fmt: skip
@click.option("--slots", type=click.IntRange(1, 10_000), default=SLOTS, show_default=True,
              help="Jobs that each process runs at once.")  # fmt: skip
@click.option("--queues", "-q", type=NAMES,
              help="The queues to serve, separated by commas; * for all. Else those of the "
              "module's queue and tasks, and default.")  # fmt: skip
@click.option("--tasks", "-t", type=NAMES, help="Run only jobs of these tasks.")
@click.option("--import", "-i", "modules", type=NAMES, multiple=True, metavar="MODULE",
              help="A module with tasks, or its queue (shop:queue). May be repeated.")  # fmt: skip
@click.option("--executor", type=click.Choice(["threads", "processes"]), default="threads",
              show_default=True, help="Where plain functions run, unless the task sets its own.",
              )  # fmt: skip
@click.option(
    "--allow-commands", is_flag=True, help="Also run command jobs, which may be any program."
)
@click.option("--grace", type=DURATION, default=f"{GRACE_SECONDS:g}s", show_default=True,
              help="How long running jobs may take to finish when it stops.")  # fmt: skip
@click.option("--lease-seconds", type=LeaseLength(),
              help="The lease of jobs without their own; auto: by measured run times.",
              )  # fmt: skip
@click.option("--max-jobs", type=click.IntRange(1), help="Replace a process after this many jobs.")
@click.option("--max-memory", type=click.FloatRange(1), metavar="MB",
              help="Replace a process that is larger than this.")  # fmt: skip
@click.option("--until-empty", "--burst", is_flag=True,
              help="Stop when no job is pending, running or to be retried.")  # fmt: skip
@click.option("--background", is_flag=True, help="Return when the workers are ready.")
@click.option("--log", "log_path", type=click.Path(dir_okay=False),
              help="The log file of background workers.")  # fmt: skip
@click.option("--reload", is_flag=True,
              help="For development: restart when a Python file here changes.")  # fmt: skip
@click.option("--quiet", is_flag=True, help="Log only problems.")
@click.option("--log-format", type=click.Choice(["plain", "json"]), default="plain",
              show_default=True, help="Log lines as text, or as JSON.")  # fmt: skip
@click.option("--app-version", envvar="LEASEHOLD_APP_VERSION", metavar="VERSION",
              help="The version of your code: its first worker marks the deploy.")  # fmt: skip
@click.option("--metrics-port", type=click.IntRange(0, 65535),
              help="Serve the store's figures to Prometheus there; 0 for any port.")  # fmt: skip
@click.option("--metrics-host", default=METRICS_HOST, show_default=True,
              help="The address of that port, which needs no token.")  # fmt: skip
def start(
    session: Session,
    /,
    *,
    modules: tuple[tuple[str, ...], ...],
    executor: str,
    grace: float,
    max_memory: float | None,
    background: bool,
    log_path: str | None,
    **asked: Any,
) -> None:
    """Start workers, here or in the background.

    A parent process runs COUNT worker processes, and replaces those that crash or reach --max-jobs
    or --max-memory. The first Ctrl-C (or SIGTERM) lets running jobs finish within --grace; a second
    one hands them back at once, with no attempt spent.

    With --import and without --store, it serves the store of the module's TaskQueue. A module whose
    queue is in another store is refused.

    While the PostgreSQL server is down or starting, it waits, and logs what it waits for. It ends
    if waiting does not help, as with a wrong password.

    With --reload the workers restart with the new code when a Python file below this folder
    changes; if it cannot be imported, the old workers continue until the next change.

    Commands run only with --allow-commands: anybody who can submit jobs can then run programs here.

    \b
    Examples:
      queuectl worker start --count 2 --queues mail,default --import tasks
      queuectl worker start --background --allow-commands
    """
    if session.store_url.startswith("memory:"):
        raise click.UsageError("a memory store lives in one process: workers would find it empty")
    if asked["reload"] and background:
        raise click.UsageError("--reload is for the foreground; in the background: worker restart")
    if log_path is not None and not background:
        raise click.UsageError("--log is for --background; here the log goes to standard error")
    plan = CrewPlan(
        store_url=session.store_url,
        modules=tuple(name for names in modules for name in names),
        executor="process" if executor == "processes" else "thread",
        grace_seconds=grace,
        max_memory_mb=max_memory,
        utc=session.utc,
        **asked,
    )
    from leasehold.cli.workers.probe import ProbeError, is_needed, with_store_of_application
    from leasehold.worker.loglines import log_to_stderr

    log_to_stderr(quiet=plan.quiet, log_format=plan.log_format, utc=plan.utc)
    if is_needed(plan):
        try:
            plan = with_store_of_application(plan, store_is_given=session.store_is_given)
        except ProbeError as error:
            raise click.exceptions.Exit(error.code) from error
    if background:
        _start_in_background(session, plan, log_path)
    else:
        from leasehold.cli.workers.crew import Crew

        raise click.exceptions.Exit(Crew(plan).run())


def _start_in_background(session: Session, plan: CrewPlan, log_path: str | None) -> None:
    from leasehold.cli.workers.background import DidNotBeginError, begin

    try:
        began = begin(plan, log_path)
    except DidNotBeginError as error:
        session.tell(f"no worker was started:\n{error.said}")
        raise click.exceptions.Exit(error.code or Exit.FAILURE) from error
    document = {
        "pid": began.pid,
        "count": plan.count,
        "slots": plan.slots,
        "queues": plan.queues,
        "log_path": began.log_path,
    }

    def show() -> None:
        place = cell(store_name(plan.store_url))
        started = f"started {counted(plan.count, 'worker')} on {place}, pid {began.pid}; "
        click.echo(wrapped(f"{started}log: {cell(began.log_path)}", sys.stdout))

    emit_one(session, document, show=show)


@command(of=worker)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All of this store, as without ID.")
@click.option("--timeout", type=DURATION, default="60s", show_default=True,
              help="How long to wait for running jobs.")  # fmt: skip
@click.option("--force", is_flag=True, help="Then kill the rest; their jobs run again.")
def stop(
    session: Session, /, *, ids: tuple[str, ...], everything: bool, timeout: float, force: bool
) -> None:
    """Stop workers.

    Without ID, it stops all workers of this store that were started on this machine. A worker on
    another machine must be named by its id: it is stopped through the store, at its next exchange,
    and the command does not wait for its end.

    Workers finish their jobs within their grace, and hand back the rest; stopped a second time,
    they hand back all jobs at once, with no attempt spent. ID is the pid that `worker start`
    printed, or a worker's pid or id as `worker status` shows it, or an unambiguous beginning or end
    of the id.

    \b
    Examples:
      queuectl worker stop
      queuectl worker stop 4711 --timeout 10s --force
    """
    from leasehold.cli.workers.stopping import stop as stop_processes

    if ids and everything:
        raise click.UsageError("name workers or pass --all, not both")
    files = pid_files(workers_folder(session.store_url))
    live = [file for file in files if not file.is_stale]
    here, elsewhere = _named(session, live, ids)
    targets = here if ids else [file for file in live if file.record.role == "crew"]
    for worker_id in elsewhere:
        known = session.queue.stop_worker(worker_id)
        session.tell(f"asked {worker_id} on {known.host or 'another machine'} to stop")
    if elsewhere and not targets:
        return
    if not targets:
        session.tell("no worker process of this store is running on this machine")
    pids = {file.record.pid for file in targets}
    workers = [
        file
        for file in live
        if file.record.role == "worker" and pids & {file.record.pid, file.record.crew_pid}
    ]

    def say_that_it_waits() -> None:
        # A script needs no company.
        if sys.stderr.isatty():
            count = len(workers) or len(targets)
            session.tell(f"waiting for {counted(count, 'worker')} to stop ...")

    try:
        results = stop_processes(
            targets, live, timeout_seconds=timeout, force=force, on_wait=say_that_it_waits
        )
    except KeyboardInterrupt:
        session.tell(
            "stopped waiting; the workers still stop when they have finished their jobs. Stop them "
            "again to hand the jobs back at once"
        )
        raise click.exceptions.Exit(Exit.INTERRUPTED) from None
    if targets or session.format != "table":
        emit(session, [document_of(result) for result in results], STOP_COLUMNS)
    if not all(result.stopped for result in results):
        session.tell(
            "they are still finishing their jobs: stop them again to hand the jobs back at once, "
            "or use --force to kill them"
        )
        raise click.exceptions.Exit(Exit.TIMEOUT)


@command(of=worker)
@click.argument("ids", nargs=-1, metavar="[ID]...")
@click.option("--timeout", type=DURATION, default="60s", show_default=True,
              help="How long to wait for running jobs.")  # fmt: skip
def restart(session: Session, /, *, ids: tuple[str, ...], timeout: float) -> None:
    """Restart the workers of this machine with the current code.

    New processes start first. When they are ready, the old ones finish their jobs within their
    grace, so there are always workers running. If the new code cannot be imported, the old workers
    stay, and the exit code is 1. ID is the pid that `worker start` printed; without ID, all workers
    of this store are restarted. After an upgrade of Leasehold itself, stop and start them instead.

    \b
    Example:
      queuectl worker restart
    """
    from leasehold.cli.workers.renewing import renew

    folder = workers_folder(session.store_url)
    live = [file for file in pid_files(folder) if not file.is_stale]
    crews = [file for file in live if file.record.role == "crew"]
    if ids:
        pids = {file.record.crew_pid for file in _named(session, live, ids).here}
        crews = [file for file in crews if file.record.pid in pids]
    if not crews:
        if ids or not _tell_of_others(session, folder):
            session.tell("no worker process of this store is running on this machine")
        raise click.exceptions.Exit(Exit.NOT_FOUND)
    results = renew(crews, folder, timeout_seconds=timeout)
    emit(session, [document_of(result) for result in results], RESTART_COLUMNS)
    if not ids:
        _tell_of_others(session, folder)
    reasons = {result.why_not for result in results if not result.restarted}
    if "timeout" in reasons:
        session.tell("the old workers are still finishing their jobs, and then stop")
        raise click.exceptions.Exit(Exit.TIMEOUT)
    if reasons:
        in_front = [file.record.pid for file in crews if file.record.log_path is None]
        where = _terminals(in_front) if in_front else "`worker logs`"
        session.tell(f"the new workers did not start, so the old ones keep running: see {where}")
        raise click.exceptions.Exit(Exit.FAILURE)


def _tell_of_others(session: Session, folder: str) -> bool:
    """Name the workers of this machine that belong to no crew; returns whether there are any."""
    from leasehold.cli.workers.overview import not_of_crews

    others: list[str] = []
    # Only a remark: it must not fail a restart that has been done.
    with contextlib.suppress(StoreError):
        others = not_of_crews(session.queue, lambda: pid_files(folder))
    for worker_id in others:
        session.tell(f"not restarted: {worker_id} was not started by queuectl; restart it yourself")
    return bool(others)


def _named(session: Session, live: list[PidFile], ids: tuple[str, ...]) -> Meant:
    """The workers that are meant, on this machine and elsewhere."""
    return meant(ids, live, [each.id for each in session.queue.workers()] if ids else [])


def _terminals(pids: Sequence[int]) -> str:
    """Where the log lines of workers in the foreground go."""
    return "the terminal of pid " + listed(map(str, pids))


@command(of=worker)
@click.option("--follow", "-f", is_flag=True, help="Follow the log until Ctrl-C.")
@click.option("--lines", "-n", type=click.IntRange(0), default=LOG_LINES, show_default=True,
              help="The number of lines to begin with.")  # fmt: skip
def logs(session: Session, /, *, follow: bool, lines: int) -> None:
    """Show the log of background workers.

    \b
    Example:
      queuectl worker logs --follow
    """
    from leasehold.cli.workers.logfile import followed, last_lines

    folder = workers_folder(session.store_url)
    live = [file for file in pid_files(folder) if not file.is_stale]
    named = dict.fromkeys(file.record.log_path for file in live)
    paths = [path for path in named if path is not None] or [default_log(folder)]
    if not any(os.path.exists(path) for path in paths):
        in_front = [file.record.pid for file in live if file.record.role == "crew"]
        session.tell(
            "no worker of this store was started in the background on this machine"
            + (f": see {_terminals(in_front)}" if in_front else "")
        )
        raise click.exceptions.Exit(Exit.NOT_FOUND)
    for path in paths:
        for line in last_lines(path, lines):
            click.echo(safe(line, limit=None))
    if follow:
        for line in followed(paths):
            click.echo(safe(line, limit=None))


@command(of=worker)
def status(session: Session) -> None:
    """List workers, alive or not, and the jobs they run.

    A worker is `alive`, `dead` (proved; the next worker takes its jobs back), `late` (two
    heartbeats are missing) or `silent` (no heartbeat for two minutes). A consumer, a program that
    leases jobs itself, is `gone` when its process has ended; its jobs wait for their leases to
    end. Pid files of ended processes are removed.

    \b
    Examples:
      queuectl worker status
      queuectl worker status -o json
    """
    from leasehold.cli.workers.overview import overview, remove_stale

    files = pid_files(workers_folder(session.store_url))
    documents = overview(session.queue, files)
    nothing = f"no worker is running: {START_A_WORKER}"
    emit(session, documents, STATUS_COLUMNS, nothing=nothing)
    removed = remove_stale(files, session.queue)
    if removed:
        session.tell(f"removed {counted(removed, 'pid file')} of processes that are gone")
