"""Queue configs, rates, the drain measure and admission: pure rules, held for all inputs."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.drain import RETRY_SECONDS_MAX, RETRY_SECONDS_MIN, SAMPLE_MICROS, Drain
from leasehold.core.model.job import Draft
from leasehold.core.model.queue_config import QueueConfig, QueueState, check_queue_name
from leasehold.core.model.rate import NANOS, Rate
from leasehold.core.model.retry import Constant, Exponential
from leasehold.core.rules.admission import QUEUE_BUCKET, Admission, client_bucket, key_bucket
from leasehold.errors import (
    InvalidQueueError,
    QueueClosedError,
    QueueFullError,
    RateLimitedError,
)

rates = st.floats(0.01, 10_000).map(Rate)
counts = st.none() | st.integers(1, 1000)
configs = st.builds(
    QueueConfig,
    max_depth=counts,
    max_concurrency=counts,
    rate_per_second=st.none() | st.floats(0.01, 1000),
    client_rate_per_second=st.none() | st.floats(0.01, 1000),
    key_concurrency=counts,
    key_rate_per_second=st.none() | st.floats(0.01, 1000),
    lease_seconds=st.none() | st.floats(1, 1000),
    max_retries=st.none() | st.integers(0, 100),
    retry=st.sampled_from([None, Constant(5), Exponential()]),
)


# -- configs -----------------------------------------------------------------------------------


@given(configs)
def test_a_config_survives_being_stored(config: QueueConfig) -> None:
    assert msgspec.json.decode(msgspec.json.encode(config), type=QueueConfig) == config


@given(configs, configs, st.sets(st.sampled_from(QueueConfig.__struct_fields__)))
def test_a_change_changes_what_it_names_and_nothing_else(
    config: QueueConfig, other: QueueConfig, names: set[str]
) -> None:
    changed = config.changed({name: getattr(other, name) for name in names})
    for name in QueueConfig.__struct_fields__:
        assert getattr(changed, name) == getattr(other if name in names else config, name)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"max_depth": 0}, "drain the queue"),
        ({"max_depth": -1}, "max_depth"),
        ({"max_depth": 1.5}, "max_depth"),
        ({"max_depth": True}, "max_depth"),
        ({"max_concurrency": 0}, "pause the queue"),
        ({"max_concurrency": "2"}, "max_concurrency"),
        ({"max_retries": -1}, "max_retries"),
        ({"max_retries": 1_000_001}, "max_retries"),
        ({"rate_per_second": 0}, "rate_per_second"),
        ({"rate_per_second": -3}, "rate_per_second"),
        ({"rate_per_second": math.nan}, "rate_per_second"),
        ({"rate_per_second": math.inf}, "rate_per_second"),
        ({"rate_per_second": "fast"}, "rate_per_second must be a number"),
        ({"client_rate_per_second": 0}, "client_rate_per_second"),
        ({"lease_seconds": 0}, "lease_seconds"),
        ({"lease_seconds": math.nan}, "lease_seconds"),
        ({"lease_seconds": False}, "lease_seconds"),
        ({"retry": 5}, "retry must be a retry policy"),
        ({"max_dept": 5}, "unknown queue option 'max_dept'"),
    ],
)
def test_a_bad_rule_is_refused_with_its_name(options: dict[str, Any], word: str) -> None:
    with pytest.raises(InvalidQueueError, match=word):
        QueueConfig.of(options)


@pytest.mark.parametrize("name", ["", "a\tb", "x" * 256, 7])
def test_a_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(InvalidQueueError, match="name"):
        check_queue_name(name)


@given(configs, st.booleans())
def test_defaults_fill_only_what_a_draft_leaves_open(config: QueueConfig, own: bool) -> None:
    plain = Draft(id="job", task="work")
    said = {"lease_seconds": 42.0, "max_retries": 2, "retry": Constant(1)} if own else {}
    draft = config.applied_to(msgspec.structs.replace(plain, **said))
    for name in ("lease_seconds", "max_retries", "retry"):
        assert getattr(draft, name) == (said[name] if own else getattr(config, name))
    assert draft.allowance == 1 + (3 if draft.max_retries is None else draft.max_retries)


# -- rates -------------------------------------------------------------------------------------


@given(rates, st.lists(st.integers(0, 3 * NANOS), min_size=1, max_size=200))
def test_no_stretch_of_time_lets_more_in_than_a_burst_and_the_rate(
    rate: Rate, pauses: list[int]
) -> None:
    """Against a brute-force look at every stretch, in whole numbers: not one job too many."""
    now, full_at = 0, 0
    let_in: list[int] = []
    for pause in pauses:
        now += pause
        if not rate.wait_nanos(full_at, jobs=1, now=now):
            full_at = rate.take(full_at, jobs=1, now=now)
            let_in.append(now)
    for first, begin in enumerate(let_in):
        for last in range(first, len(let_in)):
            jobs = last - first + 1
            assert (jobs - rate.burst) * NANOS <= (let_in[last] - begin) * rate.per_second + 1


@given(rates, st.integers(0, 10**18), st.integers(0, 10**18), st.data())
def test_after_the_wait_told_it_fits_and_not_before(
    rate: Rate, full_at: int, now: int, data: st.DataObject
) -> None:
    jobs = data.draw(st.integers(1, rate.burst))
    wait = rate.wait_nanos(full_at, jobs=jobs, now=now)
    assert rate.wait_nanos(full_at, jobs=jobs, now=now + wait) == 0
    if wait:
        assert rate.wait_nanos(full_at, jobs=jobs, now=now + wait - 1) == 1


@given(rates)
def test_a_burst_is_two_seconds_worth(rate: Rate) -> None:
    assert rate.burst == max(1, math.floor(2 * rate.per_second))
    assert not rate.wait_nanos(0, jobs=rate.burst, now=0)
    assert rate.wait_nanos(0, jobs=rate.burst + 1, now=0)


@given(rates, st.integers(0, 10**18))
def test_a_full_bucket_is_as_good_as_none(rate: Rate, now: int) -> None:
    assert rate.take(now, jobs=1, now=now) == rate.take(0, jobs=1, now=now)


# -- the drain measure -------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 10**8), st.integers(0, 1000)), max_size=50))
def test_the_older_sample_is_recent_if_somebody_looks(looks: list[tuple[int, int]]) -> None:
    now = ended = longest = 0
    drain = Drain.begin(now, ended)
    for pause, more in looks:
        now, ended, longest = now + pause, ended + more, max(longest, pause)
        drain = drain.observed(now, ended)
        assert drain.older_at <= drain.newer_at <= now
        assert drain.older_ended <= drain.newer_ended <= ended
        assert now - drain.newer_at < SAMPLE_MICROS
        assert now - drain.older_at <= 2 * SAMPLE_MICROS + longest


@given(st.integers(1, 10**6), st.integers(0, 10**9), st.integers(0, 10**6))
def test_the_time_told_is_bounded(jobs: int, now: int, ended: int) -> None:
    seconds = Drain.begin(0, 0).seconds_for(jobs, now=now, ended=ended)
    assert RETRY_SECONDS_MIN <= seconds <= RETRY_SECONDS_MAX


@given(st.integers(10, 1000), st.integers(1, 50))
def test_the_time_told_follows_the_rate(per_minute: int, jobs: int) -> None:
    drain = Drain.begin(0, 0)
    seconds = drain.seconds_for(jobs, now=60_000_000, ended=per_minute)
    exact = jobs * 60 / per_minute
    assert seconds == pytest.approx(min(max(exact, RETRY_SECONDS_MIN), RETRY_SECONDS_MAX))


# -- admission ---------------------------------------------------------------------------------


def admission(config: QueueConfig, **options: Any) -> Admission:
    return Admission(
        **{
            "queue": "mail",
            "state": QueueState.ACTIVE,
            "config": config,
            "pending": 0,
            "ended": 0,
            "drain": Drain.begin(0, 0),
            "full_at": lambda _: 0,
            "asked": None,
            "now": 0,
            **options,
        }
    )


drafts = st.lists(
    st.builds(
        Draft,
        id=st.just("job"),
        task=st.just("work"),
        client=st.sampled_from([None, "ann", "bob"]),
        limit_key=st.sampled_from([None, "tenant-7", "tenant-8"]),
    ),
    max_size=30,
)


@given(configs, drafts, st.integers(0, 1000))
def test_what_is_let_in_keeps_every_limit(
    config: QueueConfig, wanted: list[Draft], pending: int
) -> None:
    gate = admission(config, pending=pending)
    let_in: list[Draft] = []
    for draft in wanted:
        before = dict(gate.buckets)
        try:
            gate.admit(draft, pending=True)
        except QueueFullError:
            assert gate.buckets == before, "a refused job was taken from a bucket"
        else:
            let_in.append(draft)
    if config.max_depth is not None:
        assert not let_in or pending + len(let_in) <= config.max_depth
    if config.rate_per_second is not None:
        assert len(let_in) <= Rate(config.rate_per_second).burst
        assert (QUEUE_BUCKET in gate.buckets) == bool(let_in)
    if config.client_rate_per_second is not None:
        for client in (None, "ann", "bob"):
            count = sum(draft.client == client for draft in let_in)
            assert count <= Rate(config.client_rate_per_second).burst
            assert (client_bucket(client) in gate.buckets) == bool(count)
    if config.key_rate_per_second is not None:
        for key in ("tenant-7", "tenant-8"):
            count = sum(draft.limit_key == key for draft in let_in)
            assert count <= Rate(config.key_rate_per_second).burst
            assert (key_bucket(key) in gate.buckets) == bool(count)


def test_a_draining_queue_is_closed_whatever_room_it_has() -> None:
    gate = admission(QueueConfig(), state=QueueState.DRAINING)
    with pytest.raises(QueueClosedError, match="'mail' is draining"):
        gate.admit(Draft(id="job", task="work"), pending=True)


def test_the_time_told_counts_the_jobs_behind() -> None:
    config = QueueConfig(rate_per_second=1)
    full_at = Rate(1).take(0, jobs=2, now=0)
    job = Draft(id="job", task="work")
    gate = admission(config, asked=lambda: [(job, True)] * 2, full_at=lambda _: full_at)
    with pytest.raises(RateLimitedError) as caught:
        gate.admit(job, pending=True)
    assert caught.value.retry_after_seconds == pytest.approx(2.0)
