"""What the command line shows of a store in which rows cannot be read: all of it, no traceback."""

from __future__ import annotations

import apsw
import pytest

from cli.conftest import Shell
from leasehold.core.model.job import Draft
from leasehold.core.model.lease import LeaseRequest
from leasehold.core.model.schedule import ScheduleDraft
from leasehold.core.model.timing import Every
from leasehold.stores.sqlite import SQLiteStore

BAD_TEXT = "CAST(x'ff00fe' AS TEXT)"
NEWER = '{"type": "fibonacci"}'


@pytest.fixture
def damaged(shell: Shell) -> Shell:
    """One job was set aside, another one is damaged and not noticed yet, a schedule is damaged."""
    path = shell.folder / "leasehold.db"
    store = SQLiteStore(path)
    store.submit([Draft(id="aside", task="t"), Draft(id="good", task="t", priority=1)])
    store.submit([Draft(id="unnoticed", task="t", queue="other", metadata={"a": 1})])
    schedule = ScheduleDraft(name="tick", timing=Every(60), job=Draft(id="x", task="t"))
    store.set_schedule(schedule, actor="me")
    store.close()
    db = apsw.Connection(str(path))
    db.execute("UPDATE job SET retry = ? WHERE id = 'aside'", (NEWER,))
    db.execute(f"UPDATE job SET metadata = {BAD_TEXT} WHERE id = 'unnoticed'")
    db.execute("UPDATE schedule SET draft = '{'")
    db.close()
    store = SQLiteStore(path)
    [lease] = store.exchange(request=LeaseRequest(worker="w")).leases
    assert lease.job_id == "good"
    store.close()
    return shell


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("list", "unnoticed"),
        ("list -o json", "unnoticed"),
        ("show aside", "unknown retry policy 'fibonacci'"),
        ("show unnoticed", "metadata is not UTF-8"),
        ("why unnoticed", "metadata is not UTF-8"),
        ("why aside", "fibonacci"),
        ("dlq list", "aside"),
        ("status", "other"),
        ("queue list", "other"),
        ("schedule list", "tick"),
    ],
)
def test_what_can_be_read_is_shown(damaged: Shell, command: str, shown: str) -> None:
    done = damaged.run(*command.split())
    assert done.code == 0, done
    assert shown in done.out
    assert "Traceback" not in done.out + done.err


def test_check_names_every_row_that_cannot_be_read(damaged: Shell) -> None:
    done = damaged.run("check")
    said = done.out + done.err
    assert done.code != 0
    assert "Traceback" not in said
    for problem in ("job aside cannot be read", "job unnoticed cannot be read", "schedule 'tick'"):
        assert problem in " ".join(said.split())
