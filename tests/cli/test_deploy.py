"""`deploy`: marks of versions, by people and by workers; and `worker stop` of one elsewhere."""

from __future__ import annotations

from cli.conftest import Shell
from cli.seed import store_of
from leasehold.cli.exits import Exit
from leasehold.worker.worker import Worker

WAIT_SECONDS = 60


def test_marks_are_made_listed_and_forgotten(shell: Shell) -> None:
    assert shell.ok("deploy", "mark", "v1.2", "--text", "new checkout").out == "marked v1.2\n"
    shell.ok("deploy", "mark", "v1.2", "--text", "new checkout")
    [listed] = shell.ok("deploy", "list", "-o", "json").json
    assert (listed["name"], listed["text"]) == ("v1.2", "new checkout")
    assert "v1.2" in shell.ok("deploy", "list").out
    assert shell.ok("deploy", "forget", "v1.2").out == "forgot v1.2\n"
    assert shell.run("deploy", "forget", "v1.2").code == Exit.NOT_FOUND
    assert "no deploy is marked yet" in shell.ok("deploy", "list").err


def test_the_first_worker_of_a_version_marks_it(shell: Shell) -> None:
    shell.ok("enqueue", "--command", "true")
    shell.ok("worker", "start", "--until-empty", "--allow-commands", "--app-version", "v3")
    assert [each["name"] for each in shell.ok("deploy", "list", "-o", "json").json] == ["v3"]


def test_a_worker_that_was_started_elsewhere_is_asked_through_the_store(shell: Shell) -> None:
    with store_of(shell) as queue:
        worker = Worker(queue.store, queue.registry, worker_id="far-away")
        worker.start()
        assert "asked far-away on" in shell.ok("worker", "stop", "far-away").err
        assert worker.wait(WAIT_SECONDS) is not None
    assert shell.run("worker", "stop", "far-away").code == Exit.NOT_FOUND
