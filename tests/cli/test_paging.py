"""`history` and `audit`, page by page."""

from __future__ import annotations

import pytest

from cli.conftest import Done, Shell
from cli.seed import run_here, store_of
from leasehold.cli.exits import Exit


def cursor_of(answer: Done) -> str:
    """What an answer says to go on with."""
    told, _, cursor = answer.err.strip().rpartition("--cursor ")
    assert "there are more" in told
    return cursor


@pytest.fixture
def replayed(shell: Shell) -> Shell:
    """A store whose jobs a, b and c were each cancelled and replayed."""
    with store_of(shell) as queue:
        for job in "abc":
            queue.submit("resize", job_id=job)
            queue.cancel(job)
            queue.replay(job)
    return shell


def test_history_in_pages_is_the_history(replayed: Shell) -> None:
    whole = run_here(replayed, "history", "a", "-o", "jsonl").jsonl
    assert len(whole) == 3
    first = run_here(replayed, "history", "a", "--limit", "2", "-o", "jsonl")
    assert first.jsonl == whole[:2]
    rest = run_here(replayed, "history", "a", "--cursor", cursor_of(first), "-o", "jsonl")
    assert rest.jsonl == whole[2:]
    assert not rest.err


def test_audit_says_who_did_what_page_by_page(replayed: Shell) -> None:
    whole = run_here(replayed, "audit", "--limit", "0", "-o", "jsonl").jsonl
    replays = [each["detail"]["jobs"] for each in whole if each["action"] == "replay"]
    assert replays == [["c"], ["b"], ["a"]]
    first = run_here(replayed, "audit", "--limit", "1", "-o", "jsonl")
    rest = run_here(replayed, "audit", "--cursor", cursor_of(first), "-o", "jsonl")
    assert first.jsonl + rest.jsonl == whole


@pytest.mark.parametrize("command", [("history", "a"), ("audit",)])
def test_a_cursor_that_is_none_is_refused(replayed: Shell, command: tuple[str, ...]) -> None:
    refused = run_here(replayed, *command, "--cursor", "moon")
    assert refused.code == Exit.USAGE
    assert "'moon' is not a cursor" in refused.err
