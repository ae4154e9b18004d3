"""The command line on a PostgreSQL store: the same commands, another --store."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from cli.conftest import Done, Shell
from leasehold.cli.exits import Exit
from support.servers import Schemas, needs_psycopg

needs_psycopg()


class OnServer(Shell):
    """A shell whose store is on a server."""

    @property
    def environment(self) -> dict[str, str]:
        state = {"XDG_STATE_HOME": str(self.folder)}
        return {**super().environment, **state, "LEASEHOLD_STORE": os.environ["TEST_STORE"]}


@pytest.fixture
def there(shell: Shell, schemas: Schemas, monkeypatch: pytest.MonkeyPatch) -> Iterator[OnServer]:
    url = schemas.lend()
    monkeypatch.setenv("TEST_STORE", url)
    yield OnServer(shell.folder, shell.nursery)
    schemas.take_back(url)


def test_a_job_from_its_submit_to_its_result(there: OnServer) -> None:
    there.ok("init")
    job = there.ok("-o", "json", "enqueue", "--", "echo", "hello").json["id"]
    there.ok("worker", "start", "--until-empty", "--allow-commands")
    shown = there.ok("-o", "json", "show", job).json
    assert shown["job"]["status"] == "completed"
    assert "hello" in there.ok("logs", job).out
    assert job in there.ok("list").out


@pytest.mark.parametrize(
    "command",
    [
        ("status",),
        ("list",),
        ("stats",),
        ("doctor",),
        ("check",),
        ("stuck",),
        ("audit",),
        ("top", "--once"),
        ("sweep",),
        ("prune", "--dry-run"),
        ("worker", "status"),
        ("dlq", "list"),
        ("queue", "list"),
        ("schedule", "list"),
        ("token", "list"),
        ("config", "list"),
    ],
)
def test_commands_that_look_find_an_empty_store(there: OnServer, command: tuple[str, ...]) -> None:
    there.ok("init")
    done: Done = there.run(*command)
    assert done.code == Exit.OK, done
    assert "postgres@" not in done.out


def test_a_backup_is_the_servers_affair(there: OnServer) -> None:
    there.ok("init")
    done = there.run("backup", "copy.db")
    assert done.code != Exit.OK
    assert "pg_dump" in done.err


def test_a_server_that_is_not_there(shell: Shell) -> None:
    done = shell.run("--store", "postgresql://nobody@localhost:1/none", "status")
    assert done.code == Exit.STORE, done
    assert "localhost:1" in done.err
