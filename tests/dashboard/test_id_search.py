"""A job is found by its id, or by the part of it that somebody has at hand."""

from __future__ import annotations

import re

import pytest

from dashboard.conftest import People
from leasehold.dashboard import id_search
from leasehold.dashboard.shown import short


def named(people: People, query: str) -> list[str]:
    page = people.somebody("producer").get("jobs", params={"q": query})
    assert page.status_code == 200
    notice = re.search('<p class="notice">(.*?)</p>', page.text)
    return re.findall('title="(.*?)"', notice[1]) if notice else []


def test_an_id_is_found_whole_begun_ended_and_as_pages_show_it(people: People) -> None:
    job = people.queue.submit("a", queue="named").id
    other = people.queue.submit("a", queue="named").id
    assert short(job) != short(other)
    for query in (job, short(job), job[-8:], f"id:{job[-8:]}", f"id:{short(job)}"):
        assert named(people, query) == [job], query
    assert set(named(people, job[:8])) == {job, other}
    # What the search itself finds is in its list.
    assert named(people, f"id:{job}") == []


@pytest.mark.parametrize("query", ["refused", "abc", "queue:named 0199", '"  "', "", "id:x,y"])
def test_what_is_no_id_names_no_job(people: People, query: str) -> None:
    people.queue.submit("a", queue="named")
    assert named(people, query) == []


def test_an_id_given_by_a_person_is_found_by_its_beginning(people: People) -> None:
    people.queue.submit("a", queue="named", job_id="invoice-17:send")
    assert named(people, "invoice-1") == ["invoice-17:send"]


def test_only_the_latest_jobs_are_looked_through(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = people.queue.submit("a", queue="named").id
    people.queue.submit("a", queue="named")
    monkeypatch.setattr(id_search, "PAGE", 1)
    monkeypatch.setattr(id_search, "LOOKED_THROUGH", 1)
    assert named(people, old[-8:]) == []
