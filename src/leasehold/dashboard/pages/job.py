"""Job: why is it not running, who holds it, and how did each attempt end?"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from leasehold.core.model.advice import words, worker_start
from leasehold.core.model.failure import FailedAttempt, Failure, what_failed
from leasehold.core.model.histogram import Durations
from leasehold.core.model.job import Job
from leasehold.core.model.phrases import counted
from leasehold.core.model.reason import Reason, ReasonKind
from leasehold.core.model.records import WorkerInfo, is_at_work, is_late
from leasehold.core.model.settings import beat_seconds
from leasehold.core.model.status import WAITING, Event, Status
from leasehold.core.rules.failures import FAILURES_MAX
from leasehold.dashboard.attempt_strip import strip
from leasehold.dashboard.graph_picture import picture
from leasehold.dashboard.how_far import how_far
from leasehold.dashboard.payloads import HIDDEN, document, without_secrets
from leasehold.dashboard.tracebacks import shown_traceback
from leasehold.dashboard.visit import Desk, FilledPage, Visit
from leasehold.documents.jobs import why_given_up
from leasehold.documents.spans import age_of
from leasehold.errors import JobNotFoundError, LeaseholdError

ATTEMPTS_SHOWN: Final = 25
EVENTS_SHOWN: Final = 100
LINES_SHOWN: Final = 200
STRETCHES_LISTED: Final = 10
READ_AGAIN_MAX: Final = 2
STANDS_UNTIL: Final = {
    ReasonKind.QUEUE_PAUSED: "It starts after its queue is resumed.",
    ReasonKind.NO_WORKER: "It starts when a worker serves its queue.",
}
"""Obstacles of a job that need an intervention."""


def job(desk: Desk, visit: Visit) -> FilledPage:
    """The page of one moment: if the job moved on between two of its reads, it is read again."""
    job_id = visit.text("id")
    page = _read(desk, visit, job_id)
    for _ in range(READ_AGAIN_MAX):
        shown, now = page.values.get("job"), desk.store.get(job_id)
        if shown is None or now is None or _stands(shown) == _stands(now):
            break
        page = _read(desk, visit, job_id)
    return page


def _stands(job: Job) -> tuple[Status, int, int]:
    return job.status, job.lease_version, job.attempts


def _read(desk: Desk, visit: Visit, job_id: str) -> FilledPage:
    try:
        found = desk.queue.get(job_id)
    except JobNotFoundError as error:
        return _not_there(desk, job_id, error)
    now = desk.queue.now()
    attempts = desk.queue.attempts(found)
    shown = attempts[::-1][:ATTEMPTS_SHOWN]
    history = desk.queue.history(found)
    log = desk.queue.job_log(found)
    lines_shown = len(log.lines) if visit.text("log") == "all" else LINES_SHOWN
    graph = desk.queue.graph(found)
    to_replay = graph.to_replay([found.id])
    stretches = strip(found, attempts, now)
    worker = _worker(desk, found)
    why = desk.queue.why(found)
    failure = _failure(desk, found)
    return FilledPage(
        "job.html",
        {
            "title": f"Job {job_id}",
            "page": "jobs",
            "now": now,
            "job": found,
            "why": why.text,
            "next": _next(desk, found, why, worker, now),
            "given_up": why_given_up(found),
            "worker": worker,
            "usual": _usual(desk, found),
            "strip": stretches,
            "stretches": stretches[-STRETCHES_LISTED:],
            "stretches_left_out": max(0, len(stretches) - STRETCHES_LISTED),
            "attempts": [
                (each, shown_traceback(each.error.traceback if each.error else None))
                for each in shown
            ],
            "replays": any(event.event is Event.REPLAYED for event in history),
            "attempts_left_out": len(attempts) - len(shown),
            "metadata": without_secrets(found.metadata or {}),
            "hidden": HIDDEN,
            "payload": _document(desk.queue.payload_of, found),
            "result": _document(lambda _: found.result, found)
            if found.result_data is not None
            else None,
            "progress": how_far(found.progress) if found.progress else None,
            "history": history[::-1][:EVENTS_SHOWN],
            "history_left_out": max(0, len(history) - EVENTS_SHOWN),
            "log": list(log.lines)[-lines_shown:],
            "older_lines": max(0, len(log.lines) - lines_shown),
            "lost_lines": log.dropped,
            "picture": picture(graph, found.id),
            "graph_jobs": len(to_replay),
            "names": {each: each.removeprefix(f"{found.parent_id}:") for each in graph.nodes}
            if found.parent_id
            else {},
            "failure": failure,
            "is_one_of_many": failure is not None
            and any(each != found.id for each in failure.jobs),
            "can_cancel": found.status in WAITING or found.status is Status.RUNNING,
            "can_replay": found.status in (Status.DEAD, Status.CANCELLED),
            "can_discard": found.is_terminal,
            "commands": _commands(found, why, brought_others_down=len(to_replay) > 1),
        },
    )


def _not_there(desk: Desk, job_id: str, error: JobNotFoundError) -> FilledPage:
    """A page of its own: it may have been archived, or only a part of its id was typed."""
    try:
        archived: Any = desk.queue.archive.get(job_id)
    except JobNotFoundError:
        archived = None
    near = desk.queue.find_ids(job_id, 5) if job_id and archived is None else []
    values = {
        "title": "Job not found",
        "page": "jobs",
        "now": desk.queue.now(),
        "job_id": job_id,
        "error": str(error),
        "archived": archived,
        "near": near,
    }
    return FilledPage("job_gone.html", values, status=404)


def _next(desk: Desk, found: Job, why: Reason, worker: WorkerInfo | None, now: datetime) -> str:
    """The next event of the job without any intervention."""
    status = found.status
    if why.kind in STANDS_UNTIL:
        # At no rate does it start before that.
        return STANDS_UNTIL[why.kind]
    if status is Status.PENDING:
        start = desk.queue.estimated_start(found)
        if start is None:
            return "No job of its queue was leased recently, so its start cannot be estimated."
        return f"At the rate of the last minutes it starts in about {_in(start, now)}."
    if status is Status.RUNNING and found.lease_expires_at is not None:
        left = found.allowance - found.attempts
        verb = "is" if left == 1 else "are"
        then = (
            f"{counted(left, 'more attempt')} {verb} allowed" if left > 0 else "no attempt is left"
        )
        if worker is not None and not is_at_work(worker, now):
            silence = age_of((now - worker.heartbeat_at).total_seconds())
            return (
                f"Its worker has said nothing for {silence}: it is stopped, starved or cut off. "
                f"The job is taken back when the lease ends; {then}."
            )
        if worker is not None and is_late(worker, now, beat_seconds(desk.store.settings().values)):
            silence = age_of((now - worker.heartbeat_at).total_seconds())
            return (
                f"Its worker is late: its last heartbeat was {silence} ago, so it may be stopped, "
                f"starved or cut off. If so, the job is taken back when the lease ends; {then}."
            )
        return (
            "Its worker renews the lease as it works. If it falls silent, the job is taken back "
            f"when the lease ends; {then}."
        )
    if status is Status.DEAD:
        return "It stays a dead letter until somebody replays or discards it."
    if status is Status.BLOCKED:
        return "It starts when the jobs it depends on are completed."
    if status in (Status.FAILED, Status.SCHEDULED):
        return "Workers can lease it from then on."
    return ""


def _in(moment: datetime, now: datetime) -> str:
    return age_of(max(0.0, (moment - now).total_seconds()))


def _worker(desk: Desk, found: Job) -> WorkerInfo | None:
    if found.status is not Status.RUNNING:
        return None
    return next((each for each in desk.queue.workers() if each.id == found.worker), None)


def _usual(desk: Desk, found: Job) -> Durations | None:
    """How long jobs of its task usually run, shown while it runs, to tell whether it hangs."""
    if found.status is not Status.RUNNING:
        return None
    tasks = desk.tasks_of(found.queue)
    return next((each.run for each in tasks if each.task == found.task), None)


def _document(read: Any, found: Job) -> Any:
    """A payload or a result as text; as a sentence, why it cannot be read here."""
    try:
        return document(read(found))
    except LeaseholdError as error:
        return str(error)


def _failure(desk: Desk, found: Job) -> Failure | None:
    """The group of failures to which its latest error belongs."""
    if found.error is None:
        return None
    what = what_failed(FailedAttempt(found.queue, found.task, found.id, found.error))
    known = desk.queue.failures(found.queue, task=found.task, limit=FAILURES_MAX)
    return next((each for each in known if each.fingerprint == what.fingerprint), None)


def _commands(found: Job, why: Reason, *, brought_others_down: bool) -> list[str]:
    """The same on the command line."""
    job = words(found.id)
    commands = [f"queuectl show {job}", f"queuectl why {job}"]
    if found.status in (Status.DEAD, Status.CANCELLED):
        commands.append(
            f"queuectl retry --graph {job}" if brought_others_down else f"queuectl retry {job}"
        )
    elif not found.is_terminal:
        commands.append(f"queuectl cancel {job}")
    start = worker_start(found.queue, found.task) if why.kind is ReasonKind.NO_WORKER else None
    return [*([start] if start else []), *commands, f"queuectl logs {job}"]
