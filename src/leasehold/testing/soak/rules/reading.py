"""Rules of reads: they agree with a look at every job."""

from __future__ import annotations

from datetime import timedelta

from msgspec import structs

from leasehold.core.model.plain_data import LEFT_OUT
from leasehold.core.model.search import JobFilter
from leasehold.core.model.status import Status
from leasehold.testing.soak.calls import Described
from leasehold.testing.soak.rules.base import JudgedCall, rule
from leasehold.testing.soak.rules.queueing import fits


@rule("SEARCH")
def a_search_finds_what_fits(step: JudgedCall) -> int:
    if step.method != "search":
        return 0
    wanted = [job.id for job in step.after.jobs.values() if fits(step.call.get("where"), job)]
    wanted = wanted[::-1][: step.call.get("limit")]
    found = [job.id for job in step.answer.jobs]
    assert found == wanted, f"found are {found}, not {wanted}"
    without = step.call.get("without", ())
    for job in step.answer.jobs:
        whole = step.after.jobs[job.id]
        payload = (b"", LEFT_OUT) if "payload" in without else (whole.payload_data, whole.codec)
        result = (whole.result_data, whole.result_codec)
        if "result" in without and whole.result_data is not None:
            result = (b"", LEFT_OUT)
        metadata = None if "metadata" in without else whole.metadata
        assert (job.payload_data, job.codec) == payload, f"{job} without {without}"
        assert (job.result_data, job.result_codec) == result, f"{job} without {without}"
        assert job.metadata == metadata, f"{job} without {without}"
    return 1


@rule("SEA-3")
def a_count_is_what_fits(step: JudgedCall) -> int:
    if step.method != "count":
        return 0
    fitting = sum(fits(step.call.get("where"), job) for job in step.after.jobs.values())
    counted, counted_max = step.answer, step.call.get("counted_max")
    wanted = fitting if counted.is_exact else counted_max
    assert counted.jobs == wanted, f"{fitting} fit, and {counted} are counted"
    may_stop = fitting > counted_max and not _asks_only_for_lanes(step.call.get("where"))
    assert counted.is_exact or may_stop, f"{fitting} fit, and {counted} are counted"
    return 1


def _asks_only_for_lanes(where: JobFilter) -> bool:
    asked = {name for name, value in structs.asdict(where).items() if value not in (None, False)}
    return asked <= {"queues", "tasks", "statuses"}


@rule("FID-1")
def ids_are_found_by_their_beginning(step: JudgedCall) -> int:
    if step.method != "find_ids":
        return 0
    prefix, limit = step.call.get("prefix"), step.call.get("limit")
    wanted = sorted(each for each in step.after.jobs if each.startswith(prefix))[:limit]
    assert step.answer == wanted, f"found are {step.answer}, not {wanted}"
    return 1


@rule("POS-1")
def a_pending_job_has_a_place(step: JudgedCall) -> int:
    if step.method != "position":
        return 0
    job = step.after.jobs.get(step.call.get("job_id"))
    if job is None or job.status is not Status.PENDING:
        assert step.answer is None, f"{job} has the place {step.answer}"
        return 0
    pending = len(step.after.of_queue(job.queue, Status.PENDING))
    assert step.answer is not None, f"{job.id} is pending and has no place"
    assert 0 <= step.answer < pending, f"{step.answer} of {pending}"
    return 1


@rule("POS-2")
def what_is_next_is_pending(step: JudgedCall) -> int:
    if step.method != "peek":
        return 0
    told = [job.id for job in step.answer]
    pending = {job.id for job in step.after.of_queue(step.call.get("queue"), Status.PENDING)}
    assert len(set(told)) == len(told) <= step.call.get("limit"), f"next are {told}"
    assert pending.issuperset(told), f"next are {told}, and pending are {pending}"
    return len(told)


@rule("DEP-8")
def a_graph_is_all_that_is_linked(step: JudgedCall) -> int:
    if step.method != "graph" or step.used_again:
        return 0
    jobs = step.after.jobs
    linked = {each for each in step.call.get("job_ids") if each in jobs}
    grown = True
    while grown:
        more = {each for job_id in linked for each in step.needs(jobs[job_id]) if each in jobs}
        more |= {job.id for job in jobs.values() if linked.intersection(step.needs(job))}
        grown = not more <= linked
        linked |= more
    assert set(step.answer.nodes) == linked, f"linked are {linked}, not {set(step.answer.nodes)}"
    return len(linked) > 1


@rule("STUCK")
def who_is_silent_is_found(step: JudgedCall) -> int:
    if step.method != "stuck":
        return 0
    silent = timedelta(seconds=step.call.get("silent_seconds"))
    wanted = {
        job.id
        for job in step.after.jobs.values()
        if job.status is Status.RUNNING
        and job.heartbeat_at is not None
        and job.heartbeat_at + silent <= step.now
    }
    found = {each.job_id for each in step.answer}
    assert found == wanted, f"found are {found}, not {wanted}"
    return 1


@rule("KEY-4")
def running_jobs_of_a_key_are_counted(step: JudgedCall) -> int:
    if step.method != "key_info":
        return 0
    running = step.after.of_queue(step.call.get("queue"), Status.RUNNING)
    count = sum(job.limit_key == step.call.get("key") for job in running)
    assert step.answer.running == count, f"{count} run, not {step.answer}"
    return 1


@rule("CHECK")
def the_store_finds_no_fault_with_itself(step: JudgedCall) -> int:
    if step.method != "check":
        return 0
    assert step.answer == [], f"it finds {step.answer}"
    return 1


@rule("PGE-1")
def a_page_is_a_part_of_the_whole(step: JudgedCall) -> int:
    if step.method != "history_page" or step.refused:
        return 0
    since = int(step.call.get("cursor") or 0)
    whole = [e for e in step.store.history(step.call.get("job_id")) if e.sequence > since]
    limit = step.call.get("limit")
    assert step.answer.events == whole[:limit], f"of {whole}"
    assert (step.answer.next_cursor is not None) == (len(whole) > limit), f"of {len(whole)} events"
    return 1


@rule("BLO-1")
def a_store_stays_the_same_one(step: JudgedCall) -> int:
    if not isinstance(step.answer, Described):
        return 0
    told = step.answer.description.get("store_id")
    if told is None:
        return 0  # It does not outlive its process.
    known = step.book.store_id or told
    assert told == known, f"it was {known}"
    step.book.store_id = told
    return 1
