"""What the pages show of real jobs."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from dashboard.conftest import People, asked
from leasehold import Every, NewJob, TaskQueue, Workflow
from leasehold.connect import connect
from leasehold.core.model.lease import Consumer, LeaseRequest, Settlement
from leasehold.core.model.outcome import Complete
from leasehold.core.model.search import PASSED_FOR_ONE_READ
from leasehold.dashboard import app, dashboard
from leasehold.dashboard.exporting import JOBS_AT_ONCE
from leasehold.dashboard.pages import jobs

HOSTILE = "<script>alert(1)</script> \u202eevil & \"quoted\" 'name'"
HOSTILE_NAME = "<img src=x onerror=alert(1)> & \"q\" 'n' %2F/?#"


def dead(people: People, queue: str, message: str = "the card was refused") -> str:
    """The id of a job that has died."""
    job = people.queue.submit("shop:charge", 17, queue=queue, metadata={"tenant": "acme"})
    lease = people.queue.lease(queue)
    assert lease is not None
    people.queue.nack(lease, message, requeue=False)
    return job.id


def test_the_first_page_of_an_empty_store_has_a_snippet() -> None:
    app = dashboard(TaskQueue("memory://", num_workers=0), insecure=True)
    page = asked(app, "/")
    assert page.status_code == 200
    assert "Nothing yet" in page.text
    assert "TaskQueue(" not in page.text, "no other process opens a store in memory"
    assert "No job yet" in asked(app, "/jobs").text
    assert "Good news" in asked(app, "/failures").text
    assert "Good news" in asked(app, "/dead-letters").text
    assert "No worker is running" in asked(app, "/workers").text


def test_what_the_first_page_has_to_paste_does_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path / f"it's {'far ' * 20}down"
    folder.mkdir()
    with TaskQueue(folder / "jobs.db", num_workers=0) as queue:
        app = dashboard(queue, insecure=True)
        program, shell = re.findall("<pre>(.*?)</pre>", asked(app, "/").text, re.DOTALL)
        for line in html.unescape(shell).splitlines():
            assert shlex.split(line)[:3] == ["queuectl", "--store", str(folder / "jobs.db")]
        words = [sys.executable, "-c", html.unescape(program)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == "Hello, world!\n"
        assert [job.task for job in queue.search()] == ["__main__:greet"]
        assert 'id="verdict"' in asked(app, "/").text


def test_the_overview_opens_with_doctors_verdict(people: People) -> None:
    dead(people, "overviewed")
    page = people.somebody("operator").get("")
    assert "dead letters" in page.text
    assert "These jobs will not run again unless you retry them" in page.text
    assert page.text.index("verdict") < page.text.index("Throughput")
    for over in ("1h", "24h", "30d"):
        assert people.somebody("operator").get(f"?over={over}").status_code == 200


def test_a_queue_shows_its_rules_and_charts(people: People) -> None:
    people.queue.create_queue("ruled", max_concurrency=5, lease_seconds="3m", retry=["5s", "1m"])
    page = people.somebody("operator").get("queue", params={"name": "ruled"})
    assert "<dt>max concurrency</dt><dd>5</dd>" in page.text
    assert "<dt>lease</dt><dd>3m</dd>" in page.text
    assert "<dt>retry</dt><dd>after 5s, then 1m each time</dd>" in page.text
    assert "<svg" in page.text
    assert people.somebody("operator").get("queue?name=nowhere").status_code == 404


@pytest.mark.parametrize(
    ("query", "fits"),
    [
        ("queue:found", True),
        ("queue:found status:dead task:shop:charge", True),
        ("queue:found error:refused", True),
        ("queue:found meta.tenant:acme", True),
        ("queue:found meta.tenant:other", False),
        ("queue:found priority>50", False),
        ("queue:found priority:medium created>-1h", True),
        ("queue:found created<-1h", False),
        ("queue:found ended>-1h ended<2100-01-01", True),
        ("queue:found ended<-1h", False),
        ("queue:found REFUSED", True),
        ('queue:found "the card"', True),
        ("queue:found status:pending,running", False),
    ],
)
def test_jobs_are_found_by_qualifiers(people: People, query: str, fits: bool) -> None:
    if not list(people.queue.search(queue="found")):
        dead(people, "found")
    page = people.somebody("producer").get("jobs", params={"q": query})
    assert page.status_code == 200
    assert ("1 job matches" in page.text) is fits
    assert ("Nothing matches" in page.text) is not fits


@pytest.mark.parametrize(
    ("query", "explained"),
    [
        ("stauts:dead", "did you mean “status”?"),
        ("status:daed", "did you mean &#39;dead&#39;?"),
        ("priority>urgent", "must be low, medium, high, critical or 0 to 100"),
        ("created:yesterday", "say created&gt;"),
        ("created>soon", "is not a time"),
        ("ended:yesterday", "say ended&gt;"),
        ("queue:", "needs a value"),
        ("queue>5", "compared with a colon"),
        ('"never closed', "a quote is not closed"),
        ("queue:a OR queue:b", "all terms have to match"),
        ("-status:dead", "can leave nothing out"),
        ("-meta.tenant:acme", "can leave nothing out"),
        ("meta.:acme", "needs the name of a tag"),
    ],
)
def test_a_search_that_means_nothing_is_explained(
    people: People, query: str, explained: str
) -> None:
    page = people.somebody("producer").get("jobs", params={"q": query})
    assert page.status_code == 400
    assert explained in page.text


def test_an_id_with_a_colon_is_no_unknown_qualifier(people: People) -> None:
    """It is what people have to paste."""
    people.queue.submit("work", queue="pasted", job_id="order-108:charge")
    client = people.somebody("operator")
    page = client.get("jobs", params={"q": "order-108:charge"})
    assert "1 job matches" in page.text
    assert 'name="q" value="id:order-108:charge"' in page.text, "orders are about that job"
    assert client.get("jobs", params={"q": "order-109:charge"}).status_code == 400


def test_jobs_come_page_by_page_and_as_files(people: People) -> None:
    people.queue.submit_many([NewJob("=cmd|calc", (n,), queue="many") for n in range(60)])
    client = people.somebody("producer")
    first = client.get("jobs", params={"q": "queue:many"})
    assert first.text.count("data-row=") == 50
    older = first.text.partition('rel="next" href="')[2].partition('"')[0].replace("&amp;", "&")
    assert client.get(older).text.count("data-row=") == 10
    assert len(json.loads(client.get("jobs.json?q=queue:many").content)) == 60
    rows = list(csv.DictReader(io.StringIO(client.get("jobs.csv?q=queue:many").text)))
    assert len(rows) == 60
    assert rows[0]["task"] == "'=cmd|calc"  # No formula, for whoever opens it in a spreadsheet.


@pytest.mark.parametrize("count", [0, 1, JOBS_AT_ONCE, 2 * JOBS_AT_ONCE + 1])
def test_an_export_has_every_job_that_fits(people: People, count: int) -> None:
    queue = f"export-{count}"
    people.queue.create_queue(queue)
    people.queue.submit("mail:other", queue="another")
    sent = people.queue.submit_many([NewJob("mail:send", (n,), queue=queue) for n in range(count)])
    ids = [each.id for each in reversed(sent)]
    client = people.somebody("producer")
    told = client.get(f"jobs.json?q=queue:{queue}").json()
    assert [each["id"] for each in told] == ids
    rows = csv.DictReader(io.StringIO(client.get(f"jobs.csv?q=queue:{queue}").text))
    assert [each["id"] for each in rows] == ids


def test_an_export_ends_with_the_token_of_who_asked(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    def revoked_in_the_middle(*_: object) -> Iterator[bytes]:
        yield b"before"
        people.store.revoke_token("leaver", actor="admin")
        yield b"meanwhile"
        yield b"after"

    client = people.somebody("producer", name="leaver")
    monkeypatch.setattr(app, "export", revoked_in_the_middle)
    heard: list[bytes] = []
    with (
        pytest.raises(httpx.RemoteProtocolError, match="incomplete"),
        client.stream("GET", "jobs.csv") as answer,
    ):
        heard += answer.iter_raw()
    assert b"".join(heard) == b"beforemeanwhile"


def test_the_page_of_a_job_opens_with_why(people: People) -> None:
    people.queue.create_queue("resting")
    job = people.queue.submit("mail:send", {"password": "hunter2", "to": "ada"}, queue="resting")
    people.queue.pause_queue("resting")
    page = people.somebody("operator").get("job", params={"id": job.id})
    assert "is paused: none of its jobs is leased until it is resumed" in page.text
    assert "hunter2" not in page.text
    assert "hidden" in page.text
    assert f"queuectl why {job.id}" in page.text


def test_the_page_of_a_running_job_shows_its_lease(people: People) -> None:
    people.queue.submit("mail:send", queue="held")
    lease = people.queue.lease("held")
    assert lease is not None
    people.store.append_log(lease.job_id, lease.version, [])
    page = people.somebody("operator").get("job", params={"id": lease.job_id})
    assert "Lease" in page.text
    assert lease.worker in page.text


def test_the_page_of_a_workflow_job_draws_its_graph(people: People) -> None:
    flow = Workflow()
    flow.add("first", NewJob("etl:fetch", queue="flow"))
    flow.add("second", NewJob("etl:load", queue="flow"), after="first")
    run = people.queue.submit_workflow(flow)
    page = people.somebody("operator").get("job", params={"id": run["second"].id})
    assert "Graph of dependencies" in page.text
    assert "etl:fetch" in page.text


def test_a_job_that_is_not_there_is_told_with_ids_that_are_near(people: People) -> None:
    people.queue.submit("a", queue="near", job_id="near-by-1")
    page = people.somebody("operator").get("job?id=near-by")
    assert page.status_code == 404
    assert "near-by-1" in page.text


def test_failures_are_grouped_and_their_dead_letters_counted(people: People) -> None:
    for number in range(3):
        dead(people, "grouped", f"order {number} has no address")
    client = people.somebody("operator")
    page = client.get("failures", params={"queue": "grouped"})
    assert page.text.count("data-row=") == 1
    assert "order &lt;n&gt; has no address" in page.text
    name = re.search(r'<a class="what"[^>]*>(.*?)</a>', page.text, re.DOTALL)
    assert name is not None, "all that names the failure leads to it"
    assert "in shop:charge" in name[1]
    assert "has no address" in name[1]
    [group] = people.queue.failures("grouped")
    one = client.get("failure", params={"fingerprint": group.fingerprint})
    assert "died of this error" in one.text
    ask = client.get(f"confirm?order=replay-group&fingerprint={group.fingerprint}")
    assert "Replay 3 jobs" in ask.text


def test_the_other_pages(people: People) -> None:
    people.queue.schedule("ping", "net:ping", Every(60), queue="ticking")
    client = people.somebody("admin")
    assert "every 1m" in client.get("schedules").text
    assert "lease_seconds" in client.get("settings").text
    assert "queuectl doctor --verbose" in client.get("health").text
    assert "create token" in client.get("audit").text.replace("_", " ")
    assert client.get("nothing-here").status_code == 404


def test_hostile_names_are_text_wherever_they_stand(people: People) -> None:
    queue = people.queue
    queue.create_queue(HOSTILE_NAME)
    job = queue.submit(HOSTILE_NAME, HOSTILE, queue=HOSTILE_NAME, metadata={"<b>": "<i>\x1b[31m"})
    lease = queue.lease(HOSTILE_NAME, worker="<u>worker</u>")
    assert lease is not None
    client = people.somebody("admin")
    pages = ["", "queues", "workers", f"job?id={job.id}"]
    texts = [client.get(page).text for page in pages]
    texts.append(client.get("queue", params={"name": HOSTILE_NAME}).text)
    queue.nack(lease, HOSTILE, requeue=False)
    texts += [client.get(page).text for page in (*pages, "jobs", "failures", "dead-letters")]
    for text in texts:
        assert "<script>alert" not in text
        assert "<img src=x" not in text
        assert "<u>worker" not in text
        assert "\u202e" not in text
        assert "\x1b" not in text
    assert client.get("queue", params={"name": HOSTILE_NAME}).status_code == 200


@pytest.mark.parametrize(
    "query",
    ["created>-999999999999d", f"created<-{'9' * 400}w", "created<9999-12-31T23:59:59-23:00"],
)
def test_a_time_before_all_times_is_explained(people: People, query: str) -> None:
    page = people.somebody("operator").get("jobs", params={"q": query})
    assert page.status_code < 500
    assert page.status_code == 200 or 'id="problem"' in page.text


def test_links_to_odd_names_lead_to_their_jobs(people: People) -> None:
    job = people.queue.submit(
        'task "a", b', queue='queue "q", \\', metadata={"place": 'say "hi", you'}
    )
    client = people.somebody("operator")
    pages = [client.get("job", params={"id": job.id})]
    pages.append(client.get("queue", params={"name": 'queue "q", \\'}))
    links = {
        html.unescape(each) for page in pages for each in re.findall('jobs\\?q=[^"]*', page.text)
    }
    links = {each for each in links if "running" not in each}
    assert len(links) == 3
    for each in links:
        assert job.id in client.get(each).text, each


def test_secrets_in_metadata_are_hidden(people: People) -> None:
    secrets = {"api_key": "k-4711", "tenant": "acme"}
    job = people.queue.submit("a", queue="discreet", metadata=secrets)
    client = people.somebody("operator")
    for page in (
        client.get("job", params={"id": job.id}),
        client.get("jobs.json", params={"q": "queue:discreet"}),
    ):
        assert "acme" in page.text
        assert "k-4711" not in page.text
        assert "hidden" in page.text


@pytest.mark.parametrize("result", [b"{broken", b"[" * 5000 + b"]" * 5000])
def test_a_result_that_cannot_be_read_is_told(people: People, result: bytes) -> None:
    job = people.queue.submit("a", queue="unreadable")
    [lease] = people.store.exchange(request=LeaseRequest(worker="w", queues=("unreadable",))).leases
    people.store.exchange([Settlement(job.id, lease.version, Complete(result))])
    page = people.somebody("operator").get("job", params={"id": job.id})
    assert page.status_code == 200
    assert "is not JSON" in page.text


def test_a_search_by_task_says_how_far_it_looked_and_looks_further(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "READ_MAX", 2)
    rare = people.queue.submit("far:rare", queue="far")
    people.queue.submit_many([NewJob("far:often", queue="far") for _ in range(30)])
    operator = people.somebody("operator")
    page = operator.get("jobs", params={"q": "queue:far task:far:rare"})
    assert f"Up to {2 * PASSED_FOR_ONE_READ} jobs were read" in page.text
    assert rare.id not in page.text
    further = re.search(r'href="(jobs\?[^"]*cursor=[^"]*)"[^>]*>Search further', page.text)
    assert further is not None
    assert rare.id in operator.get(html.unescape(further[1])).text


def test_what_a_search_offers_is_not_read_from_the_workers_each_time(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = people.somebody("operator")
    operator.get("jobs")
    # Nobody may ask for them now.
    monkeypatch.setattr(people.store, "workers", None)
    assert operator.get("jobs", params={"q": "status:dead"}).status_code == 200


def test_a_consumer_whose_process_has_ended_is_not_at_work(people: People) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    consumer = Consumer(queues=("left",), host=socket.gethostname(), pid=ended.pid)
    people.store.exchange(
        (), LeaseRequest(worker="left-behind", queues=("left",), consumer=consumer)
    )
    page = people.somebody("observer").get("workers").text
    card = page[page.index('data-row="left-behind"') :].partition("</section>")[0]
    assert '<span class="chip s-gone">gone</span>' in card
    assert "at work" not in card


@pytest.mark.parametrize("pid", [-1, 0, 2**31, 2**62])
def test_a_consumer_that_names_no_possible_process_breaks_no_page(people: People, pid: int) -> None:
    url = people.service.url.replace("://", f"://{people.service.token('consumer')}@")
    here = Consumer(queues=("odd",), host=socket.gethostname(), pid=pid)
    with closing(connect(url)) as remote:
        remote.exchange(request=LeaseRequest(worker=f"odd {pid}", consumer=here))
    observer = people.somebody("observer")
    for page in ("", "queues", "workers", "health"):
        assert observer.get(page).status_code == 200


def test_a_page_that_is_not_there_has_its_colours_wherever_it_is_looked_for(people: People) -> None:
    """Addresses are relative: those of a page below another one lead up first."""
    client = people.somebody("operator")
    for path, up in (("nothing", ""), ("jobs/x", "../"), ("jobs/x/y", "../../")):
        page = client.get(path)
        assert page.status_code == 404
        assert "There is no such page." in page.text
        style = re.search(r'rel="stylesheet" href="([^"]*)"', page.text)
        assert style is not None
        assert style[1].startswith(f"{up}static/app.css")
        assert client.get(str(page.url.join(style[1]))).status_code == 200
