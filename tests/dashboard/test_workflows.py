"""Workflows as pages: how far each is, and how it goes on from where it stopped."""

from __future__ import annotations

import pytest

from dashboard.conftest import People
from dashboard.test_bulk import planned
from leasehold import NewJob, Workflow
from leasehold.dashboard import operation_runner


def stopped(people: People, name: str) -> None:
    """A workflow whose second of three jobs has died."""
    flow = Workflow(name)
    for step, after in (("fetch", ()), ("load", "fetch"), ("tell", "load")):
        flow.add(step, NewJob(f"etl:{step}", queue=name, max_retries=0), after=after)
    people.queue.submit_workflow(flow)
    for outcome in ("completed", "dead"):
        lease = people.queue.lease(name)
        assert lease is not None
        if outcome == "completed":
            people.queue.ack(lease)
        else:
            people.queue.nack(lease, "the disk is full", requeue=False)


def test_the_list_tells_how_far_each_is(people: People) -> None:
    stopped(people, "listed")
    client = people.somebody("observer")
    page = client.get("workflows")
    row = page.text[page.text.index('data-row="listed"') :].partition("</tr>")[0]
    assert "dead" in row
    assert "etl:fetch" in row
    assert client.get("workflow?id=never").status_code == 404


def test_a_large_workflow_is_counted_as_a_whole(people: People) -> None:
    """One of its first jobs is dead: among the latest there is none."""
    people.queue.submit("first", queue="large", parent_id="large", max_retries=0)
    lease = people.queue.lease("large")
    assert lease is not None
    people.queue.nack(lease, "the disk is full", requeue=False)
    people.queue.submit_many([NewJob("later", queue="large", parent_id="large")] * 120)
    page = people.somebody("observer").get("workflows")
    row = page.text[page.text.index('data-row="large"') :].partition("</tr>")[0]
    assert 'title="dead">✕ 1<' in row
    assert 'title="pending">○ 120<' in row
    assert "s-dead" in row.partition("</td>")[2].partition("</td>")[0]


@pytest.fixture
def at_leisure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small operation has ended when its page is shown, however busy this machine is."""
    monkeypatch.setattr(operation_runner, "SHOWN_ENDED_SECONDS", 30)


@pytest.mark.usefixtures("at_leisure")
def test_a_workflow_goes_on_from_where_it_stopped(people: People) -> None:
    stopped(people, "replayed")
    client = people.somebody("operator", name="ada")
    page = client.get("workflow?id=replayed")
    assert "It stopped at load (etl:load)" in page.text
    assert "1 other job ended because of it" in page.text
    assert "Graph of dependencies" in page.text
    asked, form = planned(client, "replay-graph", job_id="replayed:tell", workflow="replayed")
    assert "Replay 2 jobs" in asked
    assert "dependencies first: load, tell." in asked
    answer = client.post("do", data=form)
    assert answer.headers["location"].startswith("workflow?id=replayed&done=replay-graph&n=2")
    statuses = {
        step: people.queue.get(f"replayed:{step}").status.value
        for step in ("fetch", "load", "tell")
    }
    assert statuses == {"fetch": "completed", "load": "pending", "tell": "blocked"}
    assert people.queue.audit_log(1)[0].actor == "token:ada"


def test_the_page_of_a_job_that_brought_others_down_offers_to_replay_them(people: People) -> None:
    stopped(people, "offered")
    client = people.somebody("operator")
    page = client.get("job?id=offered:load")
    assert "Replay with dependents" in page.text
    assert "queuectl retry --graph offered:load" in page.text
    assert "Replay only this one" in page.text
    assert ">tell<title>etl:tell" in page.text, "its graph has the names in the workflow"
    assert people.somebody("observer").post(
        "do", data={"order": "replay-graph", "job_id": "offered:load"}
    ).status_code == 403  # fmt: skip


@pytest.mark.usefixtures("at_leisure")
def test_a_form_replays_the_jobs_that_it_named_once(people: People) -> None:
    stopped(people, "once")
    client = people.somebody("operator")
    _, form = planned(client, "replay-graph", job_id="once:load", workflow="once")
    for late in ("late", "later"):
        people.queue.submit("a", job_id=late, queue="once", depends_on=["once:load"])
    assert people.queue.get("late").status.value == "cancelled"
    for _ in range(3):
        assert client.post("do", data=form).status_code == 303
        lease = people.queue.lease("once")
        if lease is not None:
            people.queue.nack(lease, "the disk is full", requeue=False)
    assert people.queue.get("once:load").attempts == 2
    assert people.queue.get("late").status.value == "cancelled", "it was not announced"
    known = people.queue.operations
    (operation,) = [each for each in known if "once:load" in (each.where.ids or ())]
    assert (operation.planned, operation.changed) == (2, 2)
