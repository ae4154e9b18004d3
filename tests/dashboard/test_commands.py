"""Commands on pages: what is pasted into a shell means the job or the queue, whatever its name."""

from __future__ import annotations

import html
import re
import shlex

import pytest

from dashboard.conftest import People

ODD = ("$(reboot)", "a b; rm -rf ~", "`id`", "it's", "a&b|c", "<x>")


def commands_of(page: str) -> list[list[str]]:
    """The commands of a page, as a shell takes them apart."""
    found = re.findall("<code>(queuectl .*?)</code>", page)
    return [shlex.split(html.unescape(each).removesuffix(" …")) for each in found]


@pytest.mark.parametrize("name", ODD)
def test_a_job_with_an_odd_id_is_one_word(people: People, name: str) -> None:
    people.queue.submit("a", queue="odd", job_id=name)
    page = people.somebody("operator").get("job", params={"id": name}).text
    assert ["queuectl", "cancel", name] in commands_of(page)
    assert all(each[-1] == name for each in commands_of(page) if each[1] != "worker")


def test_an_id_that_looks_like_an_option_is_none(people: People) -> None:
    people.queue.submit("a", queue="odd", job_id="--yes")
    page = people.somebody("operator").get("job", params={"id": "--yes"}).text
    assert ["queuectl", "cancel", "--", "--yes"] in commands_of(page)


@pytest.mark.parametrize("name", ODD)
def test_a_queue_with_an_odd_name_is_one_word(people: People, name: str) -> None:
    people.queue.create_queue(name)
    page = people.somebody("operator").get("queue", params={"name": name}).text
    assert ["queuectl", "queue", "update", name] in commands_of(page)


def test_a_job_that_nobody_would_run_says_how_to_start_a_worker(people: People) -> None:
    job = people.queue.submit("shop.tasks:send", queue="nobody's")
    page = people.somebody("operator").get("job", params={"id": job.id}).text
    start = "queuectl worker start --queues 'nobody'\"'\"'s' --import shop.tasks"
    assert shlex.split(start) in commands_of(page)
