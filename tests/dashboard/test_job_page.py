"""The page of one job: progress, tracebacks and histories, short or very long."""

from __future__ import annotations

import json
import re
from html import unescape
from typing import Any

import pytest

from dashboard.conftest import People
from leasehold import Status, TaskQueue
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete, Fail, JobError
from leasehold.core.model.reason import Reason
from leasehold.dashboard.shown import TEXT_LENGTH_MAX
from leasehold.queue.options import JobRef

OWN = '  File "/srv/shop/mail.py", line {}, in send\n    deliver()\n'
OTHER = '  File "/usr/lib/python3.11/smtplib.py", line {}, in connect\n    raise\n'


def page_of(people: People, job_id: str) -> str:
    page = people.somebody("operator").get("job", params={"id": job_id})
    assert page.status_code == 200
    return page.text


def words_of(page: str) -> str:
    """What a reader sees of a page."""
    return " ".join(re.sub("<[^>]*>", "", page).split())


def failed(people: People, queue: str, traceback: str) -> str:
    """The id of a job that died with a traceback."""
    job = people.queue.submit("shop:mail", queue=queue)
    [lease] = people.store.exchange(request=LeaseRequest(worker="w", queues=(queue,))).leases
    error = JobError("OSError", "no line", traceback)
    people.store.exchange([Settlement(job.id, lease.version, Fail(error, retryable=False))])
    return job.id


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        ({"percent": 41.4, "message": "copying"}, "41.4 % copying"),
        ({"done": 1200, "total": 4800}, "1,200 of 4,800 (25.0 %)"),
        ({"done": 5, "total": 0}, "5 done"),
        ({"done": 5}, "5 done"),
        ({"step": "upload", "parts": [1, None]}, "{&#34;step&#34;: &#34;upload&#34;, "),
        ({"done": True, "total": "?"}, "{&#34;done&#34;: true, "),
        ({"done": 10**30, "total": 10**31}, "(10.0 %)"),
    ],
)
def test_progress_is_shown_as_a_share_or_as_json(
    people: People, progress: dict[str, Any], shown: str
) -> None:
    job = people.queue.submit("a", queue="progress")
    lease = people.queue.lease("progress")
    assert lease is not None
    people.store.report_progress(job.id, lease.version, json.dumps(progress).encode())
    assert shown in words_of(page_of(people, job.id))
    people.queue.ack(lease)


def test_progress_hides_secrets(people: People) -> None:
    job = people.queue.submit("a", queue="discreet")
    lease = people.queue.lease("discreet")
    assert lease is not None
    people.store.report_progress(job.id, lease.version, b'{"done": 1, "api_key": "k-4711"}')
    page = page_of(people, job.id)
    assert "k-4711" not in page
    assert "hidden" in page


def test_own_frames_stand_above_the_traceback(people: People) -> None:
    job_id = failed(people, "traced", OWN.format(3) + OTHER.format(341) + "OSError: no line\n")
    page = words_of(page_of(people, job_id))
    assert "Own frames, innermost first: shop/mail.py in send, line 3" in page
    assert "Shown: the last" not in page
    assert "too long to be kept" not in page
    [group] = people.queue.failures("traced")
    failure = people.somebody("operator").get(f"failure?fingerprint={group.fingerprint}")
    assert "shop/mail.py in send, line 3" in words_of(failure.text)


def test_many_own_frames_are_counted(people: People) -> None:
    job_id = failed(people, "recursive", "".join(OWN.format(n) for n in range(1, 9)))
    page = words_of(page_of(people, job_id))
    assert "first: shop/mail.py in send, line 8; " in page
    assert "shop/mail.py in send, line 4 and 3 others" in page


def test_a_traceback_that_is_cut_says_so(people: People) -> None:
    lines = TEXT_LENGTH_MAX // 50
    job_id = failed(people, "deep", f"{'x' * 99}\n" * lines)
    page = words_of(page_of(people, job_id))
    assert f"Shown: the last 655 of {lines:,} lines. queuectl show -o json {job_id}" in page


def test_a_traceback_that_was_not_kept_whole_says_so(people: People) -> None:
    job_id = failed(people, "deeper", "...\n" + OWN.format(3))
    assert "It was too long to be kept in full" in words_of(page_of(people, job_id))


def test_a_long_timeline_lists_only_its_latest_parts(people: People) -> None:
    job = people.queue.submit("a", queue="restless", max_retries=40)
    for _ in range(30):
        [lease] = people.store.exchange(
            request=LeaseRequest(worker="w", queues=("restless",))
        ).leases
        again = Fail(JobError("OSError", "no line"), retry_after_seconds=0.0)
        people.store.exchange([Settlement(job.id, lease.version, again)])
    page = page_of(people, job.id)
    listed = page.partition("<ol>")[2].partition("</ol>")[0]
    assert listed.count("<li") == 11
    assert re.search(r"\d+ earlier parts, then:", listed)
    assert "attempt 30 failed" in listed
    assert "attempt 1 failed" not in listed


def test_the_page_of_a_running_job_reads_like_english(people: People) -> None:
    job = people.queue.submit("a", queue="spoken", max_retries=1)
    lease = people.queue.lease("spoken", worker="w9")
    assert lease is not None
    people.store.append_log(job.id, lease.version, [LogLine(people.queue.now(), "began")])
    page = words_of(page_of(people, job.id))
    assert re.search(r"Running on w9 since .{23}; its lease ends in \d\w unless renewed", page)
    assert "1 more attempt is allowed" in page
    assert re.search(r"leased by w9 until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", page)
    assert "times in UTC" in page


def test_a_job_that_cannot_start_is_promised_no_time(people: People) -> None:
    people.queue.submit("a", queue="deserted")
    # Something was leased lately, so there is a rate.
    assert people.store.exchange(request=LeaseRequest(worker="w", queues=("deserted",))).leases
    job = people.queue.submit("a", queue="deserted")
    page = words_of(page_of(people, job.id))
    assert "It starts when a worker serves its queue." in page
    people.queue.pause_queue("deserted")
    paused = words_of(page_of(people, job.id))
    assert "It starts after its queue is resumed." in paused
    assert "starts in about" not in page + paused


def test_what_looks_like_a_moment_and_is_none_is_shown_as_it_was_written(people: People) -> None:
    job = people.queue.submit("a", queue="timeless")
    people.queue.cancel(job.id, reason="since 2030-02-31T25:00:00+00:00")
    assert "since 2030-02-31T25:00:00+00:00" in words_of(page_of(people, job.id))


def test_a_queue_of_which_no_attempt_ended_has_no_share_of_failures(people: People) -> None:
    people.queue.create_queue("fresh")
    page = people.somebody("operator").get("queue", params={"name": "fresh"})
    assert re.search(r"Failing\u2013of the attempts", words_of(page.text))


def test_the_queue_and_a_running_job_tell_how_long_its_task_usually_takes(people: People) -> None:
    def run(task: str) -> None:
        people.queue.submit(task, queue="timed")
        [lease] = people.store.exchange(request=LeaseRequest(worker="w", queues=("timed",))).leases
        people.store.exchange([Settlement(lease.job_id, lease.version, Complete())])

    client = people.somebody("operator")
    assert "Wait p99" not in client.get("queue", params={"name": "idle"}).text
    for task in ("slow", "quick", "quick"):
        run(task)
    page = client.get("queue", params={"name": "timed"}).text
    assert "the latest 3 jobs that ended in the last day" in words_of(page)
    shown = page.partition('id="tasks"')[2].partition("</table>")[0]
    assert re.findall(r'data-row="(\w+)"', shown) == ["quick", "slow"], "the busiest first"
    [quick, _] = re.findall(r"<tr data-row.*?</tr>", shown)
    cells = re.findall(r'<td class="n(?: wide)?">(.*?)</td>', quick)
    assert cells[:2] == ["2", "0"]
    assert len(cells) == 8
    assert all(re.fullmatch(r"[\d.]+(µs|ms|s)", each) for each in cells[2:]), cells
    job = people.queue.submit("quick", queue="timed")
    assert "Usual run" not in page_of(people, job.id), "it does not run yet"
    assert people.queue.lease("timed", worker="w9") is not None
    assert re.search(
        r"Usual run.*95 of 100 took at most .*of 2 jobs", words_of(page_of(people, job.id))
    )


def test_a_tag_links_to_a_search_that_finds_the_job(people: People) -> None:
    tags: dict[str, str | int | float | bool | None] = {
        "text": "a b", "number": 17, "digits": "17", "word": "true", "truth": True, "Case": "x",
        "minus": "-1", "float": 1.5, "empty": "", "a space": "v", "a:colon": "v", "quote": 'a"b',
    }  # fmt: skip
    job = people.queue.submit("tagged", queue="tags", metadata=tags, delay_seconds=3600)
    client = people.somebody("observer")
    page = client.get("job", params={"id": job.id}).text
    links = [unescape(each) for each in re.findall(r'href="(jobs\?q=meta[^"]*)"', page)]
    assert len(links) == len(tags) - 3, "an empty value and two names can not be searched for"
    for each in links:
        assert f'data-row="{job.id}"' in client.get(each).text, each


def test_a_job_that_ends_while_its_page_is_read_is_shown_as_it_ended(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A badge that says "running" above the words "It has ended" helps nobody."""
    job = people.queue.submit("a", queue="moves on")
    lease = people.queue.lease("moves on")
    assert lease is not None
    why = TaskQueue.why

    def ends_first(self: TaskQueue, job: JobRef) -> Reason:
        if people.queue.get(lease.job_id).status is Status.RUNNING:
            people.queue.ack(lease)
        return why(self, job)

    monkeypatch.setattr(TaskQueue, "why", ends_first)
    page = page_of(people, job.id)
    assert "It has ended" in page
    assert "s-running" not in page
