"""`show`: everything about one job."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from typing import Any, Final

import click

from leasehold.cli.command import command
from leasehold.cli.documents import full_document
from leasehold.cli.history import COLUMNS as HISTORY_COLUMNS
from leasehold.cli.jobref import job_id_of
from leasehold.cli.listing import error_line
from leasehold.cli.output import Column, emit, emit_one, json_text, print_fields
from leasehold.cli.safe import safe
from leasehold.cli.session import Session
from leasehold.cli.wrapping import wrapped
from leasehold.core.model.graph import GraphNode
from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.documents.jobs import attempt_document, why_given_up
from leasehold.documents.records import document_of
from leasehold.errors import BlobError, ForbiddenError, JobNotFoundError, ResultExpiredError

LOG_LINES_SHOWN: Final = 20
OUTPUT_LINES_SHOWN: Final = 20
DOCUMENT_LENGTH_SHOWN: Final = 2000
ATTEMPT_COLUMNS: Final = (
    Column("number", "NO", right=True),
    Column("lease_version", "LEASE", right=True, spare=2),
    Column("worker", "WORKER", fit="middle", spare=1),
    Column("started_at", "STARTED", fit="keep"),
    Column("duration_seconds", "SECONDS", right=True),
    Column("outcome", "OUTCOME", fit="keep"),
    Column("error", "ERROR", error_line),
)
LINK_COLUMNS: Final = (
    Column("link", "", fit="keep"),
    Column("id", "ID", fit="id"),
    Column("task", "TASK", fit="cut"),
    Column("status", "STATUS", fit="keep"),
)
APART: Final = ("payload", "result", "error", "progress")
"""Fields of a job that have a section of their own."""


@command()
@click.argument("job")
def show(session: Session, job: str) -> None:
    """Show everything about one job.

    It prints the job's fields, attempts, history, dependencies and dependents, log, the end of its
    output, and its latest error with the traceback; for a pruned job, its summary in the archive.
    JOB is a job's id, an unambiguous end of it, or @last.

    \b
    Examples:
      queuectl show 38c56dff
      queuectl show 38c56dff -o json | jq .attempts
    """
    queue = session.queue
    try:
        found = queue.get(job_id_of(session, job))
    except JobNotFoundError:
        _show_archived(session, job)
        return
    fields = full_document(session, found)
    document = {
        "job": fields,
        "passed": _passed(session, found, fields["payload"]),
        "attempts": [attempt_document(attempt) for attempt in queue.attempts(found)],
        "history": [document_of(event) for event in queue.history(found)],
        **_links(session, found),
        "log": queue.log(found),
        "output": _output(found),
        "archived": None,
    }
    emit_one(session, document, show=lambda: _print(session, found, document))


def _show_archived(session: Session, job: str) -> None:
    try:
        old = session.queue.archive.get(job)
    except JobNotFoundError:
        job_id_of(session, job)  # It knows the ids that are near, and raises.
        raise
    remembered = document_of(old)
    nothing = {
        "passed": None,
        **dict.fromkeys(("attempts", "history", "dependencies", "dependents", "log"), ()),
    }
    session.tell("this job was pruned; this is its summary in the archive")
    emit_one(
        session,
        {"job": None, **nothing, "output": None, "archived": remembered},
        show=lambda: print_fields(remembered),
    )


def _links(session: Session, job: Job) -> dict[str, Any]:
    """The direct neighbours of a job in its graph."""
    try:
        nodes = session.queue.graph(job).nodes
    except ForbiddenError:
        # A token for some queues may not ask for graphs, which may reach others.
        return {"dependencies": [{"id": each} for each in job.depends_on], "dependents": []}
    return {
        "dependencies": [_neighbour(nodes[each]) for each in nodes[job.id].depends_on],
        "dependents": [_neighbour(each) for each in nodes.values() if job.id in each.depends_on],
    }


def _neighbour(node: GraphNode) -> dict[str, Any]:
    return {"id": node.id, "task": node.task, "status": node.status}


def _passed(session: Session, job: Job, payload: Any) -> Any:
    """The first argument of a call that gets the results of its dependencies (`pass_result`).

    None if it gets none, or as long as it is not known.
    """
    passes = payload.get("passes") if isinstance(payload, dict) else None
    if passes is None or job.status is Status.BLOCKED:
        return None
    try:
        results = list(session.queue.dependency_results(job).values())
    except (ResultExpiredError, BlobError) as error:
        session.tell(f"the results passed to job {job.id} cannot be read: {error}")
        return None
    return results if passes == "results" else next(iter(results), None)


def _output(job: Job) -> dict[str, str | None] | None:
    """The end of a command's output; only for commands, since others could name any file."""
    if job.task != "command" or job.stdout_path is None:
        return None
    return {"stdout": _tail(job.stdout_path), "stderr": _tail(job.stderr_path)}


def _tail(path: str | None) -> str | None:
    from leasehold.worker.executors.output import tail

    try:
        # A pipe or a device under that name would be waited for.
        return tail(path) if path and stat.S_ISREG(os.stat(path).st_mode) else None
    except OSError:
        return None  # It is on another machine, or was deleted.


# -- for people --------------------------------------------------------------------------------


def _print(session: Session, job: Job, document: Mapping[str, Any]) -> None:
    fields = document["job"]
    # `completed_at` is the moment of the end, whichever it was.
    ended = "completed_at" if job.status is Status.COMPLETED else "ended_at"
    told = {
        ended if name == "completed_at" else name: value
        for name, value in fields.items()
        if value is not False
    }
    print_fields({name: value for name, value in told.items() if name not in APART})
    for name in ("payload", "progress", "result"):
        if fields[name] is not None:
            _section(name, beginning(json_text(fields[name], indent=2)))
    if document["passed"] is not None:
        _section("first argument, passed on", beginning(json_text(document["passed"], indent=2)))
    links = [
        {"link": link, **each}
        for link, name in (("needs", "dependencies"), ("needed by", "dependents"))
        for each in document[name]
    ]
    for title, rows, columns in (
        ("dependencies", links, LINK_COLUMNS),
        ("attempts", document["attempts"], ATTEMPT_COLUMNS),
        ("history", document["history"], HISTORY_COLUMNS),
    ):
        if rows:
            _heading(title)
            emit(session, rows, columns)
    _print_texts(job, document)


def _print_texts(job: Job, document: Mapping[str, Any]) -> None:
    log = document["log"]
    if log:
        _section("log", _last_lines(log, LOG_LINES_SHOWN))
    for name, text in (document["output"] or {}).items():
        if text:
            _section(name, _last_lines(text.rstrip("\n").split("\n"), OUTPUT_LINES_SHOWN))
    if job.error is not None:
        _section("error", job.error.traceback or error_line(job.error))
        given_up = why_given_up(job)
        if given_up is not None:
            click.echo(f"\n{wrapped(f'given up: {safe(given_up)}', sys.stdout)}")


def beginning(text: str) -> str:
    """A document as far as a person reads it."""
    if len(text) <= DOCUMENT_LENGTH_SHOWN:
        return text
    shown = text[:DOCUMENT_LENGTH_SHOWN]
    return f"{shown}\n... ({len(text):,} characters in all: -o json has them)"


def _last_lines(lines: list[str], shown: int) -> str:
    before = ["... (`logs` shows all of it)"] if len(lines) > shown else []
    return "\n".join(before + [safe(line) for line in lines[-shown:]])


def _section(title: str, text: str) -> None:
    _heading(title)
    click.echo(safe(text.rstrip(), lines=True, limit=None))


def _heading(title: str) -> None:
    click.echo(f"\n{click.style(title.upper(), bold=True)}")
