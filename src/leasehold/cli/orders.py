"""Orders about jobs, named one by one or by a filter: cancel, retry, reprioritize."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from typing import Any, Final, NamedTuple, TypeVar, cast

import click
import msgspec

from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.filters import filter_options, is_everything
from leasehold.cli.jobref import AmbiguousIdError, job_id_of
from leasehold.cli.output import Document, emit, jobs_counted, named
from leasehold.cli.planned import carry_out, is_wanted, tell_report
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.core.model.job import Job
from leasehold.core.model.phrases import listed
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.core.rules.filter_orders import ABLE, OrderedJob, narrowed
from leasehold.core.rules.filter_orders import Order as FilterOrder
from leasehold.core.rules.operations import Plan
from leasehold.errors import JobNotFoundError, LeaseholdError

Answer = Job | LeaseholdError
LOOKED_AT: Final = 100
"""The most jobs of an order whose dependents are looked up."""
F = TypeVar("F", bound=Callable[..., Any])


class JobOrder(NamedTuple):
    """An order to jobs, and the words for it."""

    verb: str
    done: str
    statuses: frozenset[Status]
    """Those in which a job can take it."""
    carry_out: Callable[[Sequence[str]], list[Answer]]
    by_filter: FilterOrder
    """The same for all jobs that fit, which never leave the store for it."""
    unless_said: frozenset[Status] = frozenset()
    """The statuses meant by a filter that names none; all of them if empty."""
    left_alone: Callable[[Sequence[str]], None] = lambda _job_ids: None
    """Tells which other jobs an order to these jobs leaves alone, and what to do about it."""
    asks: bool = False
    """Whether you are asked even if you name the jobs: a deletion cannot be undone."""


class Chosen(NamedTuple):
    """Which jobs were chosen on the command line, and how sure the person is."""

    jobs: tuple[str, ...]
    where: JobFilter
    everything: bool
    yes: bool
    dry_run: bool


def takes_jobs(function: F, *, status: bool = True) -> F:
    """Add arguments and options that choose jobs; the command gets them as `chosen`."""

    @wraps(function)
    def with_choice(*args: Any, **given: Any) -> Any:
        choice = Chosen(**{name: given.pop(name) for name in Chosen._fields})
        return function(*args, chosen=choice, **given)

    decorated: Any = destructive(filter_options(status=status)(with_choice))
    every = click.option("--all", "everything", is_flag=True, help="Every job that allows it.")
    return cast("F", click.argument("jobs", nargs=-1, metavar="[JOB]...")(every(decorated)))


def give(session: Session, order: JobOrder, chosen: Chosen) -> None:
    """Carry out an order, say what became of each job, and exit accordingly."""
    by_filter = chosen.everything or not is_everything(chosen.where)
    if chosen.jobs and by_filter:
        raise click.UsageError("name jobs or use a filter, not both")
    if chosen.jobs:
        _give_to_named(session, order, chosen)
    elif by_filter:
        _give_to_found(session, order, chosen)
    else:
        raise click.UsageError(
            f"which jobs to {order.verb}? Name them, use a filter, or pass --all"
        )


def _give_to_named(session: Session, order: JobOrder, chosen: Chosen) -> None:
    meant: dict[str, str | LeaseholdError] = {}
    for name in chosen.jobs:
        try:
            meant[name] = job_id_of(session, name)
        except (JobNotFoundError, AmbiguousIdError) as error:
            meant[name] = error
    job_ids = list(dict.fromkeys(each for each in meant.values() if isinstance(each, str)))
    if chosen.dry_run or (order.asks and job_ids):
        what = f"{order.verb} {jobs_counted(len(job_ids))}"
        agreed(session, what, yes=chosen.yes, dry_run=chosen.dry_run)
    if chosen.dry_run:
        answers: dict[str, Answer] = {each: session.queue.get(each) for each in job_ids}
    else:
        answers = dict(zip(job_ids, order.carry_out(job_ids), strict=True))
    refused = {name: each for name, each in meant.items() if isinstance(each, LeaseholdError)}
    answers = {**answers, **refused}
    _print(session, [_document(*each, done=not chosen.dry_run) for each in answers.items()])
    for name, answer in answers.items():
        if isinstance(answer, LeaseholdError):
            session.refuse(named(name, answer))
        elif session.format == "table" and not chosen.dry_run:
            click.echo(safe(_outcome(order, answer)))
    order.left_alone([job_id for job_id, each in answers.items() if isinstance(each, Job)])
    _exit(answers.values())


def _give_to_found(session: Session, order: JobOrder, chosen: Chosen) -> None:
    where = _able(order, chosen.where)
    operations = session.queue.operations
    plan = operations.plan(order.by_filter, where)
    if not plan.planned:
        session.tell(f"there is no job to {order.verb}")
        _print(session, [])
        return
    what = f"{order.verb} {jobs_counted(plan.planned)}"
    if not is_wanted(session, plan, what, yes=chosen.yes, dry_run=chosen.dry_run):
        planned = operations.samples(plan, LOOKED_AT) if chosen.dry_run else []
        order.left_alone([job.id for job in planned])
        _print(session, _planned(session, plan))
        return
    changed: list[OrderedJob] = []
    operation = operations.begin(plan)
    done = carry_out(session, operation, lambda advance: changed.extend(advance.jobs))
    _print(session, [_document(job.id, job, done=True) for job in changed])
    if session.format == "table":
        click.echo(f"{order.done} {jobs_counted(done.changed)}")
    stopping = sum(_is_stopping(order, job) for job in changed)
    if stopping:
        session.tell(f"{stopping:,} of them are running: their workers were asked to stop them")
    tell_report(session, done)
    order.left_alone([job.id for job in changed])


def _planned(session: Session, plan: Plan) -> list[Document]:
    """The jobs of a plan, for programs: people have seen how many there are."""
    if session.format == "table":
        return []
    where = narrowed(plan.order, plan.where, 1)
    jobs = session.queue.search(where, without=("payload", "result", "metadata"))
    return [_document(job.id, job, done=False) for job in jobs]


def _able(order: JobOrder, where: JobFilter) -> JobFilter:
    """The filter, for jobs that are meant; refuses statuses that can never take the order."""
    if where.statuses is None:
        meant = order.unless_said or order.statuses
        # A filter that names no status counts the others too, to say that they are left alone.
        is_all = meant == ABLE[type(order.by_filter)]
        statuses = None if is_all else tuple(sorted(meant))
        return msgspec.structs.replace(where, statuses=statuses)
    able = tuple(status for status in where.statuses if status in order.statuses)
    if not able:
        names = listed((status.value for status in Status if status in order.statuses), "or")
        raise click.UsageError(
            f"jobs that are {' or '.join(where.statuses)} cannot be {order.done}, only those that "
            f"are {names}"
        )
    return where


def _print(session: Session, documents: Sequence[Document]) -> None:
    """For programs; people are told in other words."""
    if session.format != "table":
        emit(session, documents, ())


def _outcome(order: JobOrder, job: Job) -> str:
    if _is_stopping(order, job):
        return f"{job.id} is running: its worker was asked to stop it"
    return f"{job.id} {order.done}"


def _is_stopping(order: JobOrder, job: Job | OrderedJob) -> bool:
    return order.verb == "cancel" and job.status is Status.RUNNING


def _document(name: str, answer: Answer | OrderedJob, *, done: bool) -> dict[str, Any]:
    if isinstance(answer, LeaseholdError):
        return {"id": name, "ok": False, "status": None, "priority": None, "error": str(answer)}
    return {
        "id": answer.id,
        "ok": True if done else None,
        "status": answer.status,
        "priority": answer.priority,
        "error": None,
    }


def _exit(answers: Iterable[Answer]) -> None:
    """Leave with 8 if only some could be done, or with their common code if none could."""
    given = list(answers)
    codes = {exit_for(each) for each in given if isinstance(each, LeaseholdError)}
    if not codes:
        return
    if any(isinstance(each, Job) for each in given):
        raise click.exceptions.Exit(Exit.PARTIAL)
    raise click.exceptions.Exit(codes.pop() if len(codes) == 1 else Exit.FAILURE)
