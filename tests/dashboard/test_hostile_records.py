"""Whatever jobs, workers and people have written, every page shows it as text, on every store."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Final

import pytest

from dashboard.conftest import People
from leasehold import Every, NewJob, TaskQueue, Workflow
from leasehold.connect import connect
from leasehold.core.model.joblog import LogLine
from leasehold.core.model.lease import LeaseRequest, Settlement
from leasehold.core.model.outcome import Fail, JobError
from leasehold.core.model.records import WorkerInfo
from leasehold.dashboard import dashboard_routes
from leasehold.dashboard.routes import PAGES
from leasehold.dashboard.shown import link
from service.conftest import serving
from support.servers import Schemas

EVIL: Final = "<script>alert(1)</script>\u202egpj\u2028\x1b[31m\x7f"
MARKUP: Final = "<script>alert(1)</script> & \"'"
"""Names are printable: others are refused."""
BROKEN: Final = f"{EVIL} \x00 \r\n=1+1"
"""What an exception may say."""
LONG: Final = "x" * 1_000_000
RAW: Final = ("\u202e", "\u2028", "\x1b", "\x7f", "\x00", "\r")
FORMULAS: Final = ("=1+1", "+1", "-1", "@sum", "\t=1", "\r=1", "\n=1", "\uff1d1", " =1")
PAGE_BYTES_MAX: Final = 500_000


@pytest.fixture(scope="module", params=["memory", "sqlite", "postgres"])
def people(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[People]:
    schemas: Schemas | None = None
    if request.param == "postgres":
        schemas = request.getfixturevalue("schemas")
        url = schemas.lend()
    else:
        folder = tmp_path_factory.mktemp("hostile")
        url = "memory://" if request.param == "memory" else str(folder / "jobs.db")
    store = connect(url)
    with serving(store, beside=dashboard_routes) as service:
        yield People(service, TaskQueue(store, num_workers=0))
    store.close()
    if schemas is not None:
        schemas.take_back(url)


def fail(people: People, queue: str, worker: str, error: JobError) -> None:
    """Let the next job of a queue fail for good."""
    request = LeaseRequest(worker=worker, queues=(queue,), limit=1)
    [lease] = people.store.exchange(request=request).leases
    people.store.exchange([Settlement(lease.job_id, lease.version, Fail(error, retryable=False))])


def hostile(people: People) -> list[str]:
    """Fill a store with hostile texts; the pages about single things."""
    queue, store = people.queue, people.store
    people.service.token("operator", name=MARKUP)
    store.register_worker(
        WorkerInfo(
            id=EVIL, host=EVIL, pid=1, queues=(MARKUP,), slots=1, started_at=store.now(),
            heartbeat_at=store.now(), tasks=(EVIL,), app_version=EVIL,
        )
    )  # fmt: skip
    store.pin("deploy", MARKUP, MARKUP, actor=EVIL)
    store.pin("view", MARKUP, f"q=queue:{MARKUP}", actor=EVIL)
    queue.schedule(MARKUP, MARKUP, Every(3600), queue=MARKUP)
    flow = Workflow(MARKUP)
    flow.add(MARKUP, NewJob(MARKUP, queue=MARKUP, metadata={MARKUP: EVIL}, idempotency_key=MARKUP))
    queue.submit_workflow(flow)
    job = queue.submit(
        MARKUP, EVIL + LONG, queue=MARKUP, priority=100, metadata={MARKUP: EVIL}, job_id=MARKUP,
        limit_key=MARKUP,
    )  # fmt: skip
    request = LeaseRequest(worker=MARKUP, queues=(MARKUP,), limit=1)
    [lease] = store.exchange(request=request).leases
    assert lease.job_id == job.id
    lines = [LogLine(at=store.now(), text=each) for each in (EVIL, LONG)]
    store.append_log(lease.job_id, lease.version, lines)
    error = JobError(BROKEN, BROKEN, f'File "{LONG}", line 1\n{BROKEN}\n{LONG}')
    store.exchange([Settlement(lease.job_id, lease.version, Fail(error, retryable=False))])
    [failure] = queue.failures(limit=1)
    return [
        link("job", id=job.id),
        link("queue", name=MARKUP),
        link("queue-rules", name=MARKUP),
        link("workflow", id=MARKUP),
        link("failure", fingerprint=failure.fingerprint),
        link("jobs", q=f'queue:"{MARKUP}"', show="worker,metadata,parent"),
        link("jobs", q=EVIL),
        link("confirm", order="cancel-found", q=f'task:"{MARKUP}"'),
        link("confirm", order="stop-worker", worker=EVIL),
    ]


def seen(page: str) -> str:
    """What people read; the values of boxes and forms are sent back as they are."""
    told = re.findall(r' (?:title|aria-label|placeholder)="([^"]*)"|<option value="([^"]*)"', page)
    return re.sub(r"<[^>]*>", " ", page) + " ".join("".join(each) for each in told)


def test_every_page_shows_it_as_text(people: People) -> None:
    about = hostile(people)
    ada = people.somebody("admin", name=f"ada {MARKUP}")
    wrong = []
    for page in (*(path for path, name, *_ in PAGES if name), *about):
        answer = ada.get(page)
        raw = [each for each in RAW if each in seen(answer.text)]
        raw += ["<script>"] * answer.text.count("<script>")
        if answer.status_code != 200 or raw or len(answer.content) > PAGE_BYTES_MAX:
            wrong.append((page[:40], answer.status_code, raw, len(answer.content)))
    assert wrong == [], wrong


def test_an_export_has_no_formula_and_nothing_that_a_terminal_obeys(people: People) -> None:
    for formula in (*FORMULAS, EVIL):
        people.queue.submit("sums", queue="sums")
        fail(people, "sums", "w", JobError(formula, formula))
    answer = people.somebody("operator").get("jobs.csv", params={"q": "queue:sums status:dead"})
    assert answer.status_code == 200
    cells = [cell for row in csv.reader(io.StringIO(answer.text)) for cell in row]
    messages = [cell for cell in cells if "1" in cell or "sum" in cell]
    assert len(messages) > len(FORMULAS)
    assert [cell for cell in cells if cell.lstrip()[:1] in ("=", "+", "-", "@", "\uff1d")] == []
    assert [each for each in RAW if each in "".join(cells)] == []
