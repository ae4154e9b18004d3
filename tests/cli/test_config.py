"""`config`: settings in the store from the shell."""

from __future__ import annotations

import pytest

from cli.conftest import Shell
from leasehold import TaskQueue
from leasehold.cli.exits import Exit
from leasehold.core.model.settings import DEFINITIONS


def test_set_get_unset(shell: Shell) -> None:
    assert shell.ok("config", "set", "lease_seconds", "10m").out == (
        "lease_seconds is 10m (stored)\n"
    )
    assert shell.ok("config", "get", "lease_seconds").out == "10m\n"
    queue = TaskQueue(shell.folder / "leasehold.db", num_workers=0)
    assert queue.settings.get("lease_seconds") == 600
    [record] = queue.audit_log()
    assert record.actor.startswith("cli")
    queue.shutdown()
    listed = shell.ok("config", "list", "-o", "json").json
    assert [each["name"] for each in listed] == list(DEFINITIONS)
    assert all(each["help"] and each["allowed"] and each["acts"] for each in listed)
    stored = {each["name"]: each["value"] for each in listed if each["source"] == "stored"}
    assert stored == {"lease_seconds": 600}
    table = shell.ok("config", "list").out.splitlines()
    assert table[0].split() == ["NAME", "VALUE", "DEFAULT", "SOURCE", "MEANING"]
    assert table[2].split()[:4] == ["max_retries", "3", "3", "default"]
    assert shell.ok("config", "unset", "lease_seconds").out == "lease_seconds is 5m (default)\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["set", "max_retrys", "5"], "did you mean 'max_retries'?"),
        (["set", "max_retries", "many"], "max_retries cannot be 'many': it must be a whole number"),
        (["set", "lease_seconds", "none"], "lease_seconds cannot be 'none'"),
        (["get", "nonsense"], "there is no setting 'nonsense'"),
        (["unset", "nonsense"], "there is no setting 'nonsense'"),
    ],
)
def test_what_makes_no_sense_is_refused(
    arguments: list[str], told: str, shell: Shell, capsys: pytest.CaptureFixture[str]
) -> None:
    from leasehold.cli.main import run

    store = shell.folder / "leasehold.db"
    TaskQueue(store, num_workers=0).shutdown()
    assert run(["--store", str(store), "config", *arguments]) == Exit.USAGE
    assert told in capsys.readouterr().err
    queue = TaskQueue(store, num_workers=0)
    assert {info.source.value for info in queue.settings} == {"default"}
    queue.shutdown()
