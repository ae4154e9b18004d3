"""Orders to many jobs: a plan is shown, exactly that is done, and it can be watched and undone."""

from __future__ import annotations

import re
import threading
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from dashboard.conftest import People
from dashboard.test_pages import dead
from leasehold import CancelAll, Operation, OperationState
from leasehold.dashboard import operation_runner
from leasehold.dashboard.app import AGAIN
from leasehold.queue.operations import Operations

HIDDEN = re.compile(r'<input type="hidden" name="([^"]*)" value="([^"]*)">')


@pytest.fixture(autouse=True)
def ended(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set whenever an operation has been carried out."""
    event = threading.Event()
    carry_out = Operations.carry_out

    def told(self: Operations, operation: Operation) -> Operation:
        try:
            return carry_out(self, operation)
        finally:
            event.set()

    monkeypatch.setattr(Operations, "carry_out", told)
    return event


def planned(client: httpx.Client, order: str, **fields: str) -> tuple[str, dict[str, str]]:
    """The page that asks, and what its form sends."""
    page = client.get("confirm", params={"order": order, **fields})
    assert page.status_code == 200, page.text
    form = page.text[page.text.index('action="do"') :]
    return page.text, {unescape(name): unescape(value) for name, value in HIDDEN.findall(form)}


def agree(client: httpx.Client, form: dict[str, str], ended: threading.Event) -> str:
    """Send the form, and wait until its operation has ended; answers with the operation's id."""
    ended.clear()
    answer = client.post("do", data=form)
    assert answer.status_code == 303, answer.text
    address = urlsplit(answer.headers["location"])
    assert address.path.endswith("operation")
    assert ended.wait(30)
    return parse_qs(address.query)["id"][0]


def test_what_is_announced_is_what_is_done(people: People, ended: threading.Event) -> None:
    client = people.somebody("operator", name="ada")
    first, second = dead(people, "here"), dead(people, "here")
    people.queue.submit("a", queue="here", delay=3600)
    page, form = planned(client, "replay-found", q="queue:here")
    assert "Replay 2 jobs" in page
    assert "1 left alone: only dead and cancelled jobs are replayed" in page
    assert first[-8:] in page
    assert "Until a worker takes a job, you can undo this for it" in page
    late = dead(people, "here")
    people.queue.replay(second)
    operation_id = agree(client, form, ended)
    assert people.queue.get(first).status.value == "pending"
    assert people.queue.get(late).status.value == "dead"
    shown = client.get("operation", params={"id": operation_id}).text
    assert "1 of 2 replayed" in shown
    assert "1 had moved on" in shown
    assert people.store.operations()[0].actor == "token:ada"
    assert operation_id in client.get("operations").text
    audit = people.somebody("admin").get("audit").text
    assert f"operation?id={operation_id}" in audit


def test_an_operation_is_undone(people: People, ended: threading.Event) -> None:
    client = people.somebody("operator")
    jobs = [people.queue.submit("a", queue="undone").id for _ in range(3)]
    _, form = planned(client, "cancel-found", q="queue:undone")
    operation_id = agree(client, {**form, "reason": "sold out"}, ended)
    assert people.queue.get(jobs[0]).reason == "sold out"
    assert "Undo…" in client.get("operation", params={"id": operation_id}).text
    page, form = planned(client, "undo-operation", operation=operation_id)
    assert "3 jobs were cancelled" in page
    undo_id = agree(client, form, ended)
    assert {people.queue.get(each).status.value for each in jobs} == {"pending"}
    assert "It undoes" in client.get("operation", params={"id": undo_id}).text
    again = client.post("do", data=form)
    assert (again.status_code, again.headers["location"]) == (303, f"operation?id={undo_id}")


def test_a_small_operation_has_ended_when_its_page_is_shown(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_runner, "SHOWN_ENDED_SECONDS", 60.0)
    client = people.somebody("operator")
    people.queue.submit("a", queue="small")
    _, form = planned(client, "cancel-found", q="queue:small")
    page = client.get(client.post("do", data=form).headers["location"])
    assert "1 of 1 cancelled." in page.text


def test_an_open_page_of_an_operation_that_ended_says_so_at_once(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pages that look again share what they read for some seconds."""
    monkeypatch.setattr(operation_runner, "SHOWN_ENDED_SECONDS", 0.0)
    may_go_on = threading.Event()
    carry_out = Operations.carry_out

    def held_up(self: Operations, operation: Operation) -> Operation:
        assert may_go_on.wait(30)
        return carry_out(self, operation)

    monkeypatch.setattr(Operations, "carry_out", held_up)
    client = people.somebody("operator")
    people.queue.submit("a", queue="watched")
    operations = people.queue.operations
    begun = operations.begin(operations.plan(CancelAll(), queue="watched"))
    client.post("do", data={"order": "continue-operation", "operation": begun.id})
    client.headers[AGAIN] = "1"
    assert "1 of 1 cancelled" not in client.get("operation", params={"id": begun.id}).text
    [at_it] = [each for each in threading.enumerate() if each.name.endswith(begun.id)]
    may_go_on.set()
    at_it.join(30)
    assert "1 of 1 cancelled" in client.get("operation", params={"id": begun.id}).text


def test_a_form_that_is_sent_twice_is_one_operation(people: People, ended: threading.Event) -> None:
    client = people.somebody("operator")
    people.queue.submit("a", queue="twice")
    _, form = planned(client, "cancel-found", q="queue:twice")
    first = agree(client, form, ended)
    people.queue.submit("a", queue="twice")
    assert agree(client, form, ended) == first
    about = [each for each in people.store.operations() if each.where.queues == ("twice",)]
    assert [each.changed for each in about] == [1]


@pytest.mark.parametrize(
    "forged",
    [
        {"agreed": ""},
        {"q": "queue:forged task:a"},
        {"order": "discard-found"},
        {"q": ""},
    ],
)
def test_only_what_was_announced_is_agreed_to(people: People, forged: dict[str, str]) -> None:
    client = people.somebody("operator")
    job = people.queue.submit("a", queue="forged")
    _, form = planned(client, "cancel-found", q="queue:forged")
    refused = client.post("do", data={**form, **forged})
    assert refused.status_code == 400, refused.text
    numbers = {**form, "agreed": form["agreed"].replace('"pending":', '"pending":1')}
    assert client.post("do", data=numbers).status_code == 400
    assert people.somebody("operator").post("do", data=form).status_code == 400
    assert people.queue.get(job.id).status.value == "pending"


def test_a_plan_is_not_agreed_to_for_ever(people: People, monkeypatch: pytest.MonkeyPatch) -> None:
    client = people.somebody("operator")
    people.queue.submit("a", queue="late")
    _, form = planned(client, "cancel-found", q="queue:late")
    monkeypatch.setattr("leasehold.dashboard.bulk.AGREED_SECONDS", 0.0)
    refused = client.post("do", data=form)
    assert refused.status_code == 400
    assert "too long ago" in refused.text


def test_priorities_letters_groups_and_queues(people: People, ended: threading.Event) -> None:
    client = people.somebody("operator")
    job = people.queue.submit("a", queue="moved")
    _, form = planned(client, "reprioritize-found", q="queue:moved")
    moved = agree(client, {**form, "priority": "90"}, ended)
    assert "<dt>New priority</dt><dd>90</dd>" in client.get("operation", params={"id": moved}).text
    assert people.queue.get(job.id).priority == 90
    page, form = planned(client, "purge-queue", queue="moved")
    assert "cannot be undone" in page
    agree(client, form, ended)
    assert people.store.get(job.id) is None
    letters = [dead(people, "letters") for _ in range(2)]
    (group,) = people.queue.failures("letters")
    _, form = planned(client, "replay-group", fingerprint=group.fingerprint)
    agree(client, {**form, "reset": "on"}, ended)
    assert [people.queue.get(each).attempts for each in letters] == [0, 0]
    for each in letters:
        people.queue.cancel(each)
    gone = dead(people, "letters")
    page, form = planned(client, "discard-letters", queue="letters")
    assert "Discard 1 job" in page
    agree(client, form, ended)
    assert people.store.get(gone) is None


def test_a_replay_tells_of_the_jobs_that_ended_because_of_the_others(
    people: People, ended: threading.Event
) -> None:
    """Replayed alone, each would complete, and those behind it stay cancelled without a word."""
    client = people.somebody("operator")
    charges = [people.queue.submit("charge", queue="chains", job_id=f"charge-{n}") for n in "ab"]
    ships = [
        people.queue.submit("ship", queue="chains", job_id=f"ship-{n}", depends_on=[f"charge-{n}"])
        for n in "ab"
    ]
    for _ in charges:
        lease = people.queue.lease("chains", wait=0)
        assert lease is not None
        people.queue.nack(lease, requeue=False)
    page, form = planned(client, "replay-letters", queue="chains")
    told = "2 other jobs were cancelled because of these, and stay cancelled."
    assert told in page
    assert "Replay them, too…" in page
    page, form = planned(client, "replay-letters", queue="chains", dependents="on")
    assert "and the jobs that ended because of them?" in unescape(page)
    assert told not in page
    assert "Replay 4 jobs" in page
    narrower = {name: value for name, value in form.items() if name != "dependents"}
    assert client.post("do", data=narrower).status_code == 400, "not what was announced"
    (group,) = people.queue.failures("chains")
    _, alone = planned(client, "replay-group", fingerprint=group.fingerprint)
    operation = client.get("operation", params={"id": agree(client, alone, ended)}).text
    assert told in operation
    assert "Replay them, too…" in operation
    assert [each.status().value for each in charges] == ["pending"] * 2
    assert [each.status().value for each in ships] == ["cancelled"] * 2


def test_all_that_ended_because_of_a_failure_is_replayed_in_one_operation(
    people: People, ended: threading.Event
) -> None:
    client = people.somebody("operator")
    charge = people.queue.submit("charge", queue="whole", job_id="whole-charge")
    people.queue.submit("ship", queue="whole", job_id="whole-ship", depends_on=[charge.id])
    lease = people.queue.lease("whole", wait=0)
    assert lease is not None
    people.queue.nack(lease, requeue=False)
    _, form = planned(client, "replay-letters", queue="whole", dependents="on")
    page = client.get("operation", params={"id": agree(client, form, ended)}).text
    assert "2 of 2 replayed" in page
    assert "because of these" not in page
    assert people.queue.get("whole-ship").status.value == "blocked"
    assert charge.status().value == "pending"


def test_one_that_nobody_carries_out_is_stopped_or_continued(
    people: People, ended: threading.Event
) -> None:
    client = people.somebody("operator")
    for name in ("left", "ended"):
        people.queue.submit("a", queue=name)
    operations = people.queue.operations
    left, stopped = (
        operations.begin(operations.plan(CancelAll(), queue=name)) for name in ("left", "ended")
    )
    assert "Stop" in client.get("operation", params={"id": left.id}).text
    agree(client, {"order": "continue-operation", "operation": left.id}, ended)
    assert operations.get(left.id).state is OperationState.DONE
    audit = people.somebody("admin").get("audit").text
    assert "resume operation" in audit
    assert "Resumed by</dt>" in client.get("operation", params={"id": left.id}).text
    again = client.post("do", data={"order": "continue-operation", "operation": left.id})
    assert (again.status_code, "nothing to resume" in again.text) == (409, True)
    client.post("do", data={"order": "stop-operation", "operation": stopped.id})
    assert operations.get(stopped.id).state is OperationState.STOPPED
    assert "it was stopped" in client.get("operation", params={"id": stopped.id}).text


def test_nothing_to_do_and_nonsense(people: People) -> None:
    client = people.somebody("operator")
    page = client.get("confirm", params={"order": "replay-found", "q": "queue:empty"})
    assert "No job can take this order" in page.text
    assert 'action="do"' not in page.text
    assert client.get("operation?id=nobody").status_code == 404
    nonsense = {"order": "replay-found", "q": "", "agreed": "{"}
    assert client.post("do", data=nonsense).status_code == 400
    refused = {"order": "reprioritize-found", "q": "queue:empty", "priority": "loud"}
    assert client.post("do", data=refused).status_code in (400, 422)
    observer = people.somebody("consumer")
    assert observer.get("operations").status_code == 403
    assert observer.post("do", data={"order": "cancel-found", "q": ""}).status_code == 403
