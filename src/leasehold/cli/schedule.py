"""`schedule`: recurring jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar, get_args

import click

from leasehold.cli.command import command, group
from leasehold.cli.complete import schedule_names
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.options import DURATION, JSON, MOMENT, PRIORITY, TAG
from leasehold.cli.output import Column, Document, cell, emit, emit_one
from leasehold.cli.session import Session
from leasehold.cli.tasknames import TypedTaskNames
from leasehold.core.model.advice import worker_start
from leasehold.core.model.phrases import counted, listed
from leasehold.core.model.records import workers_at_work
from leasehold.core.model.schedule import Misfire, Overlap, Schedule
from leasehold.core.model.timing import Cron, Every, Timing
from leasehold.documents.jobs import job_document
from leasehold.documents.schedules import schedule_document

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS = (
    Column("name", "NAME", fit="cut", least=14),
    Column("standing", "STATE", fit="keep"),
    Column("timing", "TIMING", fit="cut", least=12),
    Column("task", "TASK", fit="cut", least=14),
    Column("queue", "QUEUE", fit="cut", spare=4),
    Column("next_at", "NEXT RUN", fit="keep"),
    Column("last_at", "LAST", fit="keep", spare=3),
    Column("fired", "FIRED", right=True, spare=2),
    Column("missed", "MISSED", right=True, spare=2),
    Column("error", "ERROR", fit="cut", spare=1),
)

_name = click.argument("name", shell_complete=schedule_names)


@group
def schedule() -> None:
    """Schedules: recurring jobs."""


@command("list", of=schedule)
def list_schedules(session: Session) -> None:
    """List schedules, with their next run; `schedule show` has the details.

    A schedule is overdue if its tick has passed and no worker has fired it. It is orphaned if the
    code that declared it no longer does: see `schedule prune`.

    \b
    Example:
      queuectl schedule list
    """
    queue = session.queue
    now = queue.now()
    documents = [schedule_document(each, now) for each in queue.schedules]
    told = map(_told, documents) if session.format == "table" else documents
    nothing = "there are no schedules yet: add one with `queuectl schedule add`"
    emit(session, told, COLUMNS, nothing=nothing)
    late = next((each for each in documents if each["overdue"]), None)
    if late is not None and not workers_at_work(queue.workers(), queue.lost_workers(), now):
        session.tell(
            "note: workers fire schedules, and none is running: start one with "
            f"`{worker_start(late['queue'], late['task'])}`"
        )


def _told(document: Document) -> Document:
    """As a table shows it: in one word, the most urgent."""
    standing = next((word for word in ("orphaned", "overdue") if document[word]), document["state"])
    return {**document, "standing": standing}


@command(of=schedule)
@_name
def show(session: Session, name: str) -> None:
    """Show one schedule, with the job that it submits.

    \b
    Example:
      queuectl schedule show nightly
    """
    _emit_schedule(session, session.queue.schedules.get(name))


def _job_options(function: F) -> F:
    """The options of `add` that are about each tick's job."""
    for option in reversed(
        (
            click.option("--task", help="The name of the task: reports.tasks:nightly."),
            click.option("--args", "args", type=JSON, help="Its arguments, as a JSON list."),
            click.option(
                "--kwargs", "kwargs", type=JSON, help="Its named arguments, as a JSON object."
            ),
            click.option("--command", "shell", help="A command for the shell, in place of a task."),
            click.option("--queue", "-q", help="The queue of its jobs."),
            click.option(
                "--priority", "-p", type=PRIORITY, help="0 to 100, low, medium, high, critical."
            ),
            click.option("--max-retries", type=click.IntRange(0), help="Retries of each job."),
            click.option("--timeout", type=DURATION, help="How long each attempt may take."),
            click.option("--meta", type=TAG, multiple=True, help="A tag; may be repeated."),
        )
    ):
        function = option(function)
    return function


@command(of=schedule)
@click.argument("name")
@click.argument("argv", nargs=-1, type=click.UNPROCESSED)
@click.option("--cron", help='A cron expression: "0 3 * * *", or @hourly, @daily, ...')
@click.option("--zone", help="The time zone of the cron expression; UTC by default.")
@click.option("--every", type=DURATION, help="An interval: 90s, 15m, 1d.")
@click.option("--starting", type=MOMENT, help="The first tick of the interval.")
@click.option(
    "--misfire",
    type=click.Choice(get_args(Misfire)),
    help="What to do with missed ticks.  [default: run_once]",
)
@click.option("--catch-up-max", type=int, help="With catch_up: how many at most.")
@click.option("--grace", type=DURATION, help="With skip: how late a tick may still run.")
@click.option(
    "--overlap",
    type=click.Choice(get_args(Overlap)),
    help="Whether a tick runs while the job before it has not ended.  [default: allow]",
)
@_job_options
def add(
    session: Session,
    /,
    name: str,
    argv: tuple[str, ...],
    cron: str | None,
    zone: str | None,
    every: float | None,
    starting: datetime | None,
    task: str | None,
    args: Any,
    kwargs: Any,
    shell: str | None,
    **options: Any,
) -> None:
    """Add a schedule, or change the one of that name.

    When: --cron or --every. What: a --task by its name, a --command for the shell, or a program
    with its arguments after --. Command jobs run only on workers that allow commands.

    \b
    Examples:
      queuectl schedule add nightly --cron "0 3 * * *" --zone Europe/Berlin \\
          --task reports.tasks:nightly
      queuectl schedule add tidy --every 1h -- find /tmp/cache -mtime +1 -delete
    """
    timing = _timing(cron, zone, every, starting)
    chosen = _options(options)
    what = _check_job(task, shell, argv, args, kwargs)
    queue = session.new_queue
    if task is not None:
        TypedTaskNames(queue).check(task)
        made = queue.schedule(name, task, timing, args or (), kwargs, **chosen)
    else:
        made = queue.schedule_command(name, what, timing, **chosen)
    _emit_schedule(session, made)


@command(of=schedule)
@_name
@destructive
def remove(session: Session, name: str, yes: bool, dry_run: bool) -> None:
    """Remove a schedule; its submitted jobs stay.

    \b
    Example:
      queuectl schedule remove nightly --yes
    """
    known = session.queue.schedules.get(name)
    if agreed(session, f"remove the schedule {known.name}", yes=yes, dry_run=dry_run):
        removed = session.queue.schedules.remove(name)
        emit_one(
            session,
            schedule_document(removed, session.queue.now()),
            show=lambda: click.echo(f"schedule {cell(removed.name)!r} removed"),
        )


@command(of=schedule)
@destructive
def prune(session: Session, yes: bool, dry_run: bool) -> None:
    """Remove the orphaned schedules.

    These were declared in code, for example by a decorator, which no longer declares them. They
    keep ticking until they are removed; their submitted jobs stay.

    \b
    Example:
      queuectl schedule prune --dry-run
    """
    names = [each.name for each in session.queue.schedules if each.draft.orphaned]
    what = f"remove {counted(len(names), 'orphaned schedule')}: {listed(names)}"
    removed = []
    if not names:
        session.tell("no schedule is orphaned")
    elif agreed(session, what, yes=yes, dry_run=dry_run):
        removed = session.queue.prune_schedules()
    now = session.queue.now()
    documents = [schedule_document(each, now) for each in removed]
    lines = "".join(f"removed {cell(each.name)}\n" for each in removed)
    emit_one(session, {"removed": documents}, show=lambda: click.echo(lines, nl=False))


@command(of=schedule)
@_name
@click.option("--id", "job_id", help="The job's id; a second run with the same id submits nothing.")
def run(session: Session, name: str, job_id: str | None) -> None:
    """Submit a schedule's job now, out of turn.

    \b
    Example:
      queuectl schedule run nightly
    """
    job = session.queue.schedules.run(name, job_id=job_id).job()
    emit_one(
        session, job_document(job), show=lambda: click.echo(f"{cell(job.id)} {job.status.value}")
    )


@command(of=schedule)
@_name
def pause(session: Session, name: str) -> None:
    """Pause a schedule until it is resumed; ticks that pass meanwhile do not run.

    \b
    Example:
      queuectl schedule pause nightly
    """
    _emit_schedule(session, session.queue.schedules.pause(name))


@command(of=schedule)
@_name
def resume(session: Session, name: str) -> None:
    """Resume a paused schedule at its next tick.

    \b
    Example:
      queuectl schedule resume nightly
    """
    _emit_schedule(session, session.queue.schedules.resume(name))


def _timing(
    cron: str | None, zone: str | None, every: float | None, starting: datetime | None
) -> Timing:
    if (cron is None) == (every is None):
        raise click.UsageError('say when it ticks: --cron "0 3 * * *", or --every 15m')
    if cron is not None:
        if starting is not None:
            raise click.UsageError("--starting requires --every")
        return Cron(cron, zone or "UTC")
    if zone is not None:
        raise click.UsageError("--zone requires --cron: an interval has no time zone")
    assert every is not None
    return Every(every, starting)


def _check_job(
    task: str | None, shell: str | None, argv: Sequence[str], args: Any, kwargs: Any
) -> str | Sequence[str]:
    if sum((task is not None, shell is not None, bool(argv))) != 1:
        raise click.UsageError(
            "give a --task, a --command, or a program and its arguments after --"
        )
    if task is None and (args is not None or kwargs is not None):
        raise click.UsageError("--args and --kwargs require --task")
    return shell if shell is not None else list(argv)


def _options(given: dict[str, Any]) -> dict[str, Any]:
    named = {"grace": "grace_seconds", "timeout": "timeout_seconds", "meta": "metadata"}
    meta = dict(given.pop("meta"))
    options = {named.get(name, name): value for name, value in given.items() if value is not None}
    return {**options, "metadata": meta} if meta else options


def _emit_schedule(session: Session, known: Schedule) -> None:
    emit_one(session, schedule_document(known, session.queue.now()))
