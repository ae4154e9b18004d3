"""`queue`: queues, their rules, state and jobs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import click
import msgspec

from leasehold.cli.command import command, group
from leasehold.cli.confirm import agreed, destructive
from leasehold.cli.exits import Exit, exit_for
from leasehold.cli.filters import filter_options, is_everything
from leasehold.cli.output import (
    Column,
    Document,
    emit,
    emit_one,
    jobs_counted,
    json_text,
    named,
    print_fields,
)
from leasehold.cli.planned import carry_out, is_wanted, tell_report
from leasehold.cli.rules import rule_options
from leasehold.cli.session import Session
from leasehold.core.model.queue_config import QueueConfig, QueueInfo
from leasehold.core.model.refusals import no_queue
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import WAITING, Status
from leasehold.core.rules.filter_orders import PurgeAll
from leasehold.documents.queues import queue_document
from leasehold.documents.records import document_of
from leasehold.errors import QueueExistsError, QueueNotEmptyError, QueueNotFoundError
from leasehold.queue.queues import IfExists


def _rules(config: Document) -> Document:
    """The rules of a queue that differ from the defaults, for people."""
    without = document_of(QueueConfig())
    own = {name: value for name, value in config.items() if value != without[name]}
    return {name: "none" if value is None else value for name, value in own.items()}


def _told(config: Document) -> str:
    """The rules that a queue has, in one line."""
    return " ".join(f"{name}={_short(value)}" for name, value in _rules(config).items()) or "-"


def _short(value: Any) -> str:
    return str(value) if isinstance(value, str | int | float) else json_text(value)


COLUMNS: Final = (
    Column("queue", "QUEUE", fit="cut"),
    Column("state", "STATE", fit="keep"),
    *(
        Column(status.value, status.value.upper(), "{:,}".format, right=True)
        for status in (Status.PENDING, Status.RUNNING, Status.DEAD)
    ),
    Column("changed_at", "CHANGED", fit="keep", spare=2),
    Column("changed_by", "BY", fit="cut", spare=3),
    Column("config", "RULES", _told),
)


@group
def queue() -> None:
    """Queues: their rules, state and jobs."""


# -- looking -----------------------------------------------------------------------------------


@command("list", of=queue)
def list_queues(session: Session) -> None:
    """List all queues that were created or ever held a job.

    \b
    Example:
      queuectl queue list -o json
    """
    documents = map(queue_document, session.queue.list_queues())
    emit(session, documents, COLUMNS, nothing="there is no queue yet")


@command(of=queue)
@click.argument("name")
def show(session: Session, name: str) -> None:
    """Show a queue: its rules, its state, its figures.

    \b
    Example:
      queuectl queue show mail -o json | jq .config
    """
    _print(session, name)


# -- rules -------------------------------------------------------------------------------------


@command(of=queue)
@click.argument("name")
@click.option("--if-exists", type=click.Choice(["error", "keep", "update"]), default="error",
              show_default=True, help="If the queue already has other rules.")  # fmt: skip
@rule_options
def create(session: Session, name: str, if_exists: IfExists, rules: dict[str, Any]) -> None:
    """Create a queue with rules.

    A queue without rules need not be created. Creating it again with the same rules changes
    nothing. With other rules it is refused, unless --if-exists is keep (the stored rules stay) or
    update (these replace them).

    \b
    Example:
      queuectl queue create mail --max-concurrency 5 --rate-per-second 20
    """
    try:
        session.new_queue.create_queue(name, if_exists=if_exists, **rules)
    except QueueExistsError as error:
        differences = str(error).rpartition("; pass if_exists=")[0] or str(error)
        raise QueueExistsError(
            f"{differences}; pass --if-exists keep to leave them, --if-exists update to apply "
            "yours, or use `queuectl queue update` to change some"
        ) from None
    session.tell(f"queue {name!r} is ready")
    _print(session, name)


@command(of=queue)
@click.argument("name")
@rule_options
def update(session: Session, name: str, rules: dict[str, Any]) -> None:
    """Change some of a queue's rules.

    Other rules do not change; `none` removes a rule. Running workers follow at once.

    \b
    Examples:
      queuectl queue update mail --max-depth 10000 --max-concurrency none
      queuectl queue update mail --retry 1,10,60
      queuectl queue update mail --retry '{"type":"linear","step_seconds":5}'
    """
    if not rules:
        raise click.UsageError("name a rule to change: `queuectl queue update --help` lists them")
    session.queue.update_queue(name, **rules)
    session.tell(f"queue {name!r} is changed")
    _print(session, name)


# -- state -------------------------------------------------------------------------------------


@command(of=queue)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def pause(session: Session, names: tuple[str, ...]) -> None:
    """Pause a queue: no job is leased; running jobs continue, and new ones are accepted.

    \b
    Example:
      queuectl queue pause mail reports
    """
    _set_state(session, names, session.queue.pause_queue)


@command(of=queue)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def resume(session: Session, names: tuple[str, ...]) -> None:
    """Resume a paused or draining queue.

    \b
    Example:
      queuectl queue resume mail
    """
    _set_state(session, names, session.queue.resume_queue)


@command(of=queue)
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
def drain(session: Session, names: tuple[str, ...]) -> None:
    """Drain a queue: new jobs are refused, and the others run.

    \b
    Example:
      queuectl queue drain mail
    """
    _set_state(session, names, session.queue.drain_queue)


# -- jobs --------------------------------------------------------------------------------------


@command(of=queue)
@click.argument("name")
@filter_options(status=WAITING, queue=False)
@destructive
def purge(session: Session, name: str, where: JobFilter, yes: bool, dry_run: bool) -> None:
    """Delete the waiting jobs of a queue, or those that match.

    They are deleted with all their records. Running and ended jobs stay: `dlq purge` deletes dead
    letters, and `prune` completed and cancelled jobs. To jobs that depend on a deleted one it
    counts as cancelled; --dry-run counts them.

    \b
    Examples:
      queuectl queue purge mail --dry-run
      queuectl queue purge mail --task newsletter --yes
    """
    session.queue.queue_info(name)  # An unknown queue is an error, not an empty one.
    operations = session.queue.operations
    plan = operations.plan(PurgeAll(), _narrowed(name, where))
    if not plan.planned:
        session.tell(f"no waiting job of queue {name!r} matches")
        emit_one(session, {"queue": name, "purged": 0})
        return
    what = f"delete {jobs_counted(plan.planned)} from queue {name!r} for good"
    what += _to_tell(session, name, where)
    if not is_wanted(session, plan, what, yes=yes, dry_run=dry_run):
        return
    done = carry_out(session, operations.begin(plan))
    emit_one(session, {"queue": name, "purged": done.changed})
    tell_report(session, done)


@command(of=queue)
@click.argument("name")
@click.option("--force", is_flag=True, help="Even if jobs wait or run in it.")
@destructive
def delete(session: Session, name: str, force: bool, yes: bool, dry_run: bool) -> None:
    """Delete a queue's rules and state.

    It is refused while jobs wait or run in the queue. With --force waiting jobs become dead
    letters, and running jobs may finish. Ended jobs stay.

    \b
    Example:
      queuectl queue delete mail --force
    """
    waiting = _waiting(session, name, JobFilter())
    running = session.queue.queue_info(name).running
    if (waiting or running) and not force:
        raise QueueNotEmptyError(
            f"{jobs_counted(waiting)} wait and {running:,} run in queue {name!r}: let them finish "
            "(`queuectl queue drain`), purge them, or pass --force to make dead letters of the "
            "waiting ones"
        )
    letters = f" and make dead letters of {jobs_counted(waiting)}" if waiting else ""
    if not agreed(session, f"delete queue {name!r}{letters}", yes=yes, dry_run=dry_run):
        return
    emit_one(session, {"queue": name, "dead": session.queue.delete_queue(name, force=force)})


# -- helpers -----------------------------------------------------------------------------------


def _print(session: Session, name: str) -> None:
    document = queue_document(session.queue.queue_info(name))

    def show() -> None:
        figures = {name: value for name, value in document.items() if name != "config" and value}
        print_fields({**figures, **_rules(document["config"])})

    emit_one(session, document, show=show)


def _set_state(
    session: Session, names: tuple[str, ...], change: Callable[[str], QueueInfo]
) -> None:
    changed: list[Document] = []
    refused: list[QueueNotFoundError] = []
    for name in dict.fromkeys(names):
        try:
            changed.append({"queue": name, "state": change(name).state.value})
        except QueueNotFoundError as error:
            session.refuse(named(name, no_queue(name, session.queue.queues())))
            refused.append(error)
    if changed or session.format != "table":
        emit(session, changed, (Column("queue", "QUEUE"), Column("state", "STATE")))
    if refused:
        raise click.exceptions.Exit(Exit.PARTIAL if changed else exit_for(refused[0]))


def _to_tell(session: Session, name: str, where: JobFilter) -> str:
    """The effect of a purge on jobs that wait for those it deletes."""
    blocked = session.queue.search(status=Status.BLOCKED)
    needs = {job.id: job.depends_on for job in blocked}
    if not needs:
        return ""
    purged = {job.id for job in session.queue.search(_narrowed(name, where))}
    told = sum(not purged.isdisjoint(needs[each]) for each in needs.keys() - purged)
    if not told:
        return ""
    depend = "depends on them sees" if told == 1 else "depend on them see"
    return f" ({jobs_counted(told)} that {depend} them as cancelled)"


def _waiting(session: Session, name: str, where: JobFilter) -> int:
    """How many waiting jobs of a queue fit."""
    session.queue.queue_info(name)  # An unknown queue is an error, not an empty one.
    if is_everything(where):
        stats = session.queue.get_queue_stats(name)
        return sum(stats[status.value] for status in WAITING)
    return sum(1 for _ in session.queue.search(_narrowed(name, where)))


def _narrowed(name: str, where: JobFilter) -> JobFilter:
    statuses = where.statuses or tuple(WAITING)
    return msgspec.structs.replace(where, queues=(name,), statuses=statuses)
