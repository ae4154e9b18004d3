"""Named views, deploy marks and workers that are to stop."""

from __future__ import annotations

import re
from html import unescape

from dashboard.conftest import People
from dashboard.test_orders import give
from dashboard.test_pages import dead
from leasehold import TaskQueue
from leasehold.worker.worker import Worker

WAIT_SECONDS = 60


def test_a_search_is_kept_under_a_name_and_forgotten(people: People) -> None:
    client = people.somebody("operator", name="ada")
    search = 'queue:mail meta.place:"here & there"'
    give(client, "keep-view", name="Here <b>", q=search, show="worker,task")
    assert people.queue.audit_log(1)[0].actor == "token:ada"
    page = people.somebody("observer").get("jobs").text
    found = re.search(r'<a href="(jobs\?[^"]*)"[^>]*>Here &lt;b&gt;</a>', page)
    assert found is not None
    kept = client.get(unescape(found[1]))
    assert f'value="{search.replace("&", "&amp;").replace(chr(34), "&#34;")}"' in kept.text
    ticked = re.findall(r'name="show" value="(\w+)" checked', kept.text)
    assert ticked == ["task", "worker"]
    give(client, "forget-view", name="Here <b>")
    assert "Here &lt;b&gt;" not in client.get("jobs").text


def test_a_search_that_means_nothing_is_kept_for_nobody(people: People) -> None:
    client = people.somebody("operator")
    answer = client.post("do", data={"order": "keep-view", "name": "odd", "q": "bogus:1"})
    assert answer.status_code == 400
    assert "Unknown qualifier “bogus”" in answer.text
    assert "odd" not in [each.name for each in people.store.pins("view")]


def test_who_may_only_look_keeps_no_view_and_stops_no_worker(people: People) -> None:
    client = people.somebody("observer")
    for form in (
        {"order": "keep-view", "name": "mine", "q": "status:dead"},
        {"order": "stop-worker", "worker": "w"},
        {"order": "mark-deploy", "name": "v0"},
    ):
        assert client.post("do", data=form).status_code == 403
    assert "mine" not in [each.name for each in people.store.pins("view")]


def test_failures_are_told_by_the_deploy_that_brought_them(people: People) -> None:
    client = people.somebody("operator")
    dead(people, "deployed", "the old one")
    people.queue.mark_deploy("v7")
    dead(people, "deployed", "the new one")
    page = client.get("failures?queue=deployed&since=v7").text
    rows = {
        message: page[: page.index(message)].count("<tr")
        for message in ("the old one", "the new one")
    }
    cells = page.split("<tr")
    assert ">new</span>" in cells[rows["the new one"]]
    assert ">gone</span>" in cells[rows["the old one"]]
    [group] = [each for each in people.queue.failures("deployed") if "new" in each.message]
    assert "in v7" in client.get("failure", params={"fingerprint": group.fingerprint}).text


def test_deploys_are_drawn_on_charts(people: People) -> None:
    people.queue.submit("a", queue="charted")
    give(people.somebody("operator"), "mark-deploy", name="v8 <i>")
    page = people.somebody("operator").get("queue?name=charted").text
    assert page.count('class="deploy" x1=') >= 4
    assert "v8 &lt;i&gt;" in page
    assert "v8 <i>" not in page


def test_a_worker_is_asked_to_stop(people: People) -> None:
    queue = TaskQueue(people.store, num_workers=0)
    worker = Worker(people.store, queue.registry, worker_id="polite", queues=("rest",))
    worker.start()
    client = people.somebody("operator", name="grace")
    asked = client.get("confirm?order=stop-worker&worker=polite")
    assert "finishes what it runs (0 jobs)" in asked.text
    give(client, "stop-worker", worker="polite")
    assert worker.wait(WAIT_SECONDS) is not None
    assert people.queue.audit_log(1)[0].actor == "token:grace"
    assert client.post("do", data={"order": "stop-worker", "worker": "polite"}).status_code == 404
    assert "may have stopped" in client.get("confirm?order=stop-worker&worker=polite").text


def test_a_view_of_another_person_is_not_replaced(people: People) -> None:
    ada, bob = (people.somebody("operator", name=f"keeps-{each}") for each in ("ada", "bob"))
    give(ada, "keep-view", name="shared", q="status:dead")
    give(bob, "keep-view", name="shared", q="status:dead")
    form = {"order": "keep-view", "name": "shared", "q": "status:failed"}
    refused = bob.post("do", data=form)
    assert "by token:keeps-ada" in refused.text or "by token:keeps-bob" in refused.text
    views = {each.name: each.text for each in people.store.pins("view")}
    assert "dead" in views["shared"]
