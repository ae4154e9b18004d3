"""Fingerprints of errors: what makes two the same, and which are forgotten."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.failure import (
    SAMPLE_MAX,
    FailedAttempt,
    Failure,
    WhatFailed,
    own_frame,
    what_failed,
    without_particulars,
)
from leasehold.core.model.outcome import JobError
from leasehold.core.rules.failures import (
    FAILURES_MAX,
    FORGOTTEN_TOGETHER,
    StandingFailure,
    to_forget,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
SAME = WhatFailed("q", "t", "ValueError", "no", "")


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("user 17 is gone", "user 4711 is gone"),
        ("at 2026-01-31T12:00:00", "at 2026-02-01T09:30:11"),
        ("<Door at 0x7f00>", "<Door at 0xdeadbeef>"),
        ("to ada@example.org", "to bob.b@example.com"),
        ("key 8f14e45fceea167a", "key c9f0f895fb98ab91"),
        (
            "no user_2d931510-d99f-494a-8c67-87feb05e1594",
            "no user_bad7b1f0-aaaa-4bbb-8ccc-00000000000a",
        ),
        (
            "a/2026-11-16/12345678-d99f-494a-8c67-87feb05e1594.payload.0.179.9f14e45fceea167a gone",
            "a/2026-11-17/c9f0f895-d99f-494a-8c67-87feb05e1594.payload.3.1.c9f0f895fb98ab91 gone",
        ),
        ("took 0.5 s\n  of 10.0.0.1:80", "took 12.25 s of 10.0.0.254:8080"),
    ],
)
def test_particulars_do_not_count(one: str, two: str) -> None:
    assert without_particulars(one) == without_particulars(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [("no such user", "no such group"), ("utf8 is bad", "utf16le is"), ("a: 1", "b: 1")],
)
def test_words_do(one: str, two: str) -> None:
    assert without_particulars(one) != without_particulars(two)


@given(st.text(max_size=2000))
def test_any_text_has_a_fingerprint(text: str) -> None:
    what = what_failed(FailedAttempt("q", "t", "job", JobError("E", text, text)))
    assert len(what.fingerprint) == 16
    assert what.fingerprint == what._replace().fingerprint
    assert "\n" not in what.message


@pytest.mark.parametrize(
    ("traceback", "frame"),
    [
        (None, ""),
        ("ValueError: no", ""),
        ('  File "/a/b/c.py", line 1, in run\n    x()\n', "b/c.py in run"),
        ('  File "C:\\app\\job.py", line 9, in <module>', "app/job.py in <module>"),
        ('  File "/x/site-packages/y.py", line 1, in run\n', ""),
        ('  File "<string>", line 1, in run\n', ""),
    ],
)
def test_the_innermost_frame_of_their_own(traceback: str | None, frame: str) -> None:
    assert own_frame(traceback) == frame


@given(st.lists(st.lists(st.sampled_from("abcdefgh"), min_size=1), min_size=1, max_size=6))
def test_failures_add_up(parts: list[list[str]]) -> None:
    whole = Failure.of(SAME, parts[0], NOW)
    for part in parts[1:]:
        whole = whole.then(Failure.of(SAME, part, NOW))
    jobs = [job for part in parts for job in part]
    assert whole.count == len(jobs)
    assert whole.jobs == tuple(dict.fromkeys(reversed(jobs)))[:SAMPLE_MAX]


def test_the_oldest_that_came_once_are_forgotten_first() -> None:
    often = [StandingFailure(f"often-{n}", 2, n) for n in range(FAILURES_MAX - 10)]
    once = [StandingFailure(f"once-{n}", 1, 10**6 + n) for n in range(11)]
    gone = to_forget([*often, *once])
    assert len(gone) == FORGOTTEN_TOGETHER + 1
    assert gone[:11] == [f"once-{n}" for n in range(11)]
    assert gone[11:] == [f"often-{n}" for n in range(len(gone) - 11)]
