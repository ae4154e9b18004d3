"""`migrate-store` from the shell; `tests/stores/test_moving.py` has what it does to stores."""

from __future__ import annotations

from cli.conftest import Shell
from leasehold.cli.exits import Exit


def test_from_one_file_to_another_and_reopened(shell: Shell) -> None:
    job = shell.ok("-o", "json", "enqueue", "--", "echo", "hello").json["id"]
    moved = shell.ok("-o", "json", "migrate-store", "leasehold.db", "sqlite:///new.db")
    tables = {each["name"]: each for each in moved.json["tables"]}
    assert tables["job"]["rows"] == 1
    assert len(tables["job"]["checksum"]) == 64
    assert "verified job: 1 rows" in moved.err
    assert "now change the URL of the store" in moved.err
    assert shell.ok("--store", "new.db", "-o", "json", "show", job).json["job"]["id"] == job

    refused = shell.run("enqueue", "--", "echo", "no")
    assert refused.code == Exit.STORE
    assert "was moved to" in refused.err
    assert shell.run("migrate-store", "--reopen", "leasehold.db").code == Exit.USAGE
    shell.ok("migrate-store", "--reopen", "--yes", "leasehold.db")
    shell.ok("enqueue", "--", "echo", "again")
    assert "nothing was to be done" in shell.ok("migrate-store", "--reopen", "leasehold.db").err


def test_what_makes_no_sense_is_refused(shell: Shell) -> None:
    assert "there is no store at" in shell.run("migrate-store", "none.db", "new.db").err
    shell.ok("init")
    for arguments in (
        ("leasehold.db",),
        ("leasehold.db", "memory://"),
        ("leasehold.db", "redis://cache"),
        ("--reopen", "leasehold.db", "new.db"),
    ):
        assert shell.run("migrate-store", *arguments).code == Exit.USAGE
