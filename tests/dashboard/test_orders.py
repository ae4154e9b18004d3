"""What people do from pages: it is asked about, done to real jobs, and audited."""

from __future__ import annotations

import re
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from dashboard.conftest import People
from dashboard.test_pages import dead
from leasehold import Every
from leasehold.dashboard.forms import FIELDS_OF
from leasehold.dashboard.orders import ORDERS
from leasehold.dashboard.shown import seen


def give(client: httpx.Client, order: str, **fields: str) -> dict[str, list[str]]:
    """Give an order; answers with what the address of the next page tells."""
    answer = client.post("do", data={"order": order, **fields})
    assert answer.status_code == 303, answer.text
    page = client.get(answer.headers["location"])
    assert page.status_code in (200, 404)
    return parse_qs(urlsplit(answer.headers["location"]).query)


def test_a_queue_is_paused_drained_and_resumed_under_ones_own_name(people: People) -> None:
    people.queue.create_queue("steered")
    client = people.somebody("operator", name="ada")
    for order, state in (
        ("pause-queue", "paused"),
        ("resume-queue", "active"),
        ("drain-queue", "draining"),
        ("resume-queue", "active"),
    ):
        give(client, order, queue="steered")
        assert people.queue.queue_info("steered").state.value == state
    assert people.queue.audit_log(1)[0].actor == "token:ada"


@pytest.mark.parametrize("order", ["pause-queue", "drain-queue", "purge-queue"])
def test_the_question_says_how_many_jobs(people: People, order: str) -> None:
    name = f"asked-{order}"
    for _ in range(3):
        people.queue.submit("a", queue=name)
    page = people.somebody("operator").get("confirm", params={"order": order, "queue": name})
    assert page.status_code == 200
    assert "3 pending" in page.text or "Purge 3 jobs" in page.text


def test_a_job_is_cancelled_with_a_reason(people: People) -> None:
    job = people.queue.submit("a", queue="stopped")
    client = people.somebody("operator")
    page = client.get("confirm", params={"order": "cancel", "job_id": job.id})
    assert "Cancel the job" in page.text
    give(client, "cancel", job_id=job.id, reason="sold out")
    assert people.queue.get(job.id).reason == "sold out"


def test_a_dead_job_is_replayed_and_another_discarded(people: People) -> None:
    client = people.somebody("operator")
    replayed, discarded = dead(people, "letters"), dead(people, "letters")
    give(client, "replay", job_id=replayed, seen=seen(people.queue.get(replayed)))
    assert people.queue.get(replayed).status.value == "pending"
    give(client, "discard", job_id=discarded)
    assert people.store.get(discarded) is None


def test_a_second_click_does_not_replay_a_job_that_has_died_again(people: People) -> None:
    client = people.somebody("operator")
    died = dead(people, "twice")
    page = client.get("job", params={"id": died}).text
    form = page[page.index('value="replay"') :]
    pressed = re.search('name="seen" value="([^"]+)"', form)
    assert pressed is not None
    told = []
    for _ in range(2):
        told += give(client, "replay", job_id=died, seen=unescape(pressed[1]))["n"]
        lease = people.queue.lease("twice")
        if lease is not None:
            people.queue.nack(lease, "again", requeue=False)
    assert people.queue.get(died).attempts == 2
    assert told == ["1", "0"]
    page = client.get("job", params={"id": died, "done": "replay", "n": "0"}).text
    assert "Nothing was done: the job was replayed already" in page


def test_a_schedule_runs_now_rests_and_goes_on(people: People) -> None:
    people.queue.schedule("hourly", "net:ping", Every(3600), queue="clocked")
    client = people.somebody("operator")
    page = client.get("schedules").text
    form = page[page.index('value="run-schedule"') :]
    pressed = re.search('name="request_id" value="([^"]+)"', form)
    assert pressed is not None
    for _ in range(2):
        # A double click posts the same form twice.
        give(client, "run-schedule", name="hourly", request_id=pressed[1])
    assert people.queue.count(queue="clocked").jobs == 1
    assert pressed[1] not in client.get("schedules").text, "the next page has another"
    give(client, "pause-schedule", name="hourly")
    assert people.queue.schedules.get("hourly").paused
    give(client, "resume-schedule", name="hourly")
    assert not people.queue.schedules.get("hourly").paused


def test_what_cannot_be_done_is_told_and_changes_nothing(people: People) -> None:
    client = people.somebody("operator")
    job = people.queue.submit("a", queue="pending-still")
    form = {"order": "replay", "job_id": job.id, "seen": seen(people.queue.get(job.id))}
    assert client.post("do", data=form).status_code == 409
    assert client.post("do", data={"order": "cancel", "job_id": "nobody"}).status_code == 404
    assert client.post("do", data={"order": "dance"}).status_code in (400, 422)
    assert client.post("do", data={"order": "cancel"}).status_code in (400, 422)
    unknown = {"order": "update-queue", "queue": "nope", "shown": "{}"}
    assert client.post("do", data=unknown).status_code == 404
    assert client.get("confirm?order=replay&job_id=x").status_code in (400, 422)


def test_a_page_tells_only_of_orders_that_there_are(people: People) -> None:
    page = people.somebody("operator").get("queues?done=<b>hacked</b>&n=1")
    assert "hacked" not in page.text


def test_every_order_says_which_fields_it_takes() -> None:
    assert ORDERS.keys() == FIELDS_OF.keys()


@pytest.mark.parametrize("mistaken", ["queu=mistaken", "name=mistaken", "queue=a&queue=mistaken"])
def test_a_mistaken_field_never_widens_an_order(people: People, mistaken: str) -> None:
    client = people.somebody("operator")
    letter = dead(people, "mistaken")
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for order in ("discard-letters", "replay-letters"):
        answer = client.post("do", content=f"order={order}&{mistaken}", headers=form)
        assert answer.status_code in (400, 422)
        assert client.get(f"confirm?order={order}&{mistaken}").status_code in (400, 422)
    assert people.queue.get(letter).status.value == "dead"
