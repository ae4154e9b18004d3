"""MET-16 to MET-18: any metric over any stretch of time, and its gaps."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from leasehold.core.contract.store import Store
from leasehold.core.model.outcome import Complete
from leasehold.core.model.span import DAYS_KEPT, MINUTES_KEPT
from leasehold.core.rules.timeline import FIGURES, POINTS_MAX
from leasehold.env import ManualClock
from leasehold.errors import InvalidWindowError
from leasehold.testing.conformance.base import (
    ConformanceBase,
    draft,
    lease_one,
    settle,
    submit,
)
from leasehold.testing.conformance.measuring import DAY, MINUTE, live


class TimelineClauses(ConformanceBase):
    def test_met_16_minutes_from_one_moment_to_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        begin = clock.now()
        for number in range(5):
            submit(store, *(draft(f"{number}-{each}") for each in range(number)))
            clock.advance(MINUTE)
        found = store.timeline(
            ["submitted", "pending"],
            since=begin + timedelta(minutes=1, seconds=30),
            until=begin + timedelta(minutes=4),
        )
        assert found.at == [begin + timedelta(minutes=each) for each in (1, 2, 3)]
        assert found.values == {"submitted": [1, 2, 3], "pending": [1, 3, 6]}
        assert (found.queue, found.resolution) == (None, "minute")

    def test_met_16_it_ends_with_the_present(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        clock.advance(2 * MINUTE + 15)
        live(store, clock, "job", run=15)
        for until in (None, clock.now() + timedelta(days=9)):
            found = store.timeline(["throughput_per_second"], since=begin, until=until)
            assert len(found.at) == 3
            # The minute that is not over has 30 seconds so far.
            assert found.values["throughput_per_second"] == [0, 0, pytest.approx(1 / 30)]
        ahead = store.timeline(["leased"], since=clock.now() + timedelta(hours=1))
        assert (ahead.at, ahead.values) == ([], {"leased": []})

    def test_met_16_the_figures_are_those_of_series_and_daily(
        self, store: Store, clock: ManualClock
    ) -> None:
        begin = clock.now()
        for number in range(4):
            live(store, clock, f"job-{number}", wait=number, run=2 * number)
            clock.advance(MINUTE)
        points = store.series("default", minutes=5)
        every = store.timeline(sorted(FIGURES), "default", since=points[0].at)
        assert every.at == [point.at for point in points]
        for name in ("submitted", "leased", "completed", "pending", "deepest", "error_rate"):
            assert every.values[name] == [getattr(point, name) for point in points]
        for name in ("wait", "run", "held"):
            for figure in ("count", "mean_seconds", "p50_seconds", "p95_seconds", "p99_seconds"):
                told = [getattr(getattr(point, name), figure) for point in points]
                assert every.values[f"{name}_{figure}"] == told
        told = [point.wait_by_priority["medium"].p95_seconds for point in points]
        assert every.values["wait_medium_p95_seconds"] == told
        days = store.timeline(["completed", "run_mean_seconds"], since=begin, resolution="day")
        daily = store.daily(days=len(days.at))
        assert days.values["completed"] == [day.completed for day in daily]
        assert days.values["run_mean_seconds"] == [day.run.mean_seconds for day in daily]

    def test_met_17_what_was_forgotten_has_no_value(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        submit(store, draft("one"))
        clock.advance(MINUTES_KEPT * MINUTE)
        submit(store, draft("two"))
        found = store.timeline(["submitted"], since=begin, until=begin + timedelta(minutes=3))
        assert found.values["submitted"] == [None, 0, 0]
        assert found.known_since == begin + timedelta(minutes=1)
        days = store.timeline(["submitted"], since=begin, resolution="day")
        assert sum(value or 0 for value in days.values["submitted"]) == 2
        assert days.known_since <= clock.now() - timedelta(days=DAYS_KEPT - 1)

    def test_met_17_all_of_it_may_be_forgotten(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        clock.advance(10 * DAY)
        submit(store, draft("one"))
        found = store.timeline(["pending"], since=begin, until=begin + timedelta(minutes=2))
        assert found.values["pending"] == [None, None]

    def test_met_17_nothing_measured_is_not_zero(self, store: Store, clock: ManualClock) -> None:
        begin = clock.now()
        submit(store, draft("one"))
        clock.advance(MINUTE)
        settle(store, lease_one(store), Complete())
        found = store.timeline(["leased", "wait_p95_seconds", "wait_mean_seconds"], since=begin)
        assert found.values["leased"] == [0, 1]
        assert found.values["wait_p95_seconds"] == [None, pytest.approx(60, rel=0.1)]
        assert found.values["wait_mean_seconds"] == [None, pytest.approx(60)]

    def test_met_17_the_oldest_job_grows_older_while_nothing_happens(
        self, store: Store, clock: ManualClock
    ) -> None:
        begin = clock.now()
        clock.advance(30)
        submit(store, draft("one"))
        clock.advance(4 * MINUTE)
        submit(store, draft("two", queue="other"))
        clock.advance(2 * MINUTE)
        settle(store, lease_one(store), Complete())
        clock.advance(MINUTE)
        for until in (None, clock.now() + timedelta(days=1)):
            found = store.timeline(["oldest_pending_age_seconds"], since=begin, until=until)
            assert found.values["oldest_pending_age_seconds"] == [
                30, 90, 150, 210, 270, 330, 150, 180,
            ]  # fmt: skip
        both = ["deepest", "oldest_pending_age_seconds"]
        assert store.timeline(both, since=begin).values[both[1]][-3:] == [330, 150, 180]
        one = store.timeline(both[1:], "default", since=begin).values[both[1]]
        assert one == [30, 90, 150, 210, 270, 330, 0, 0]
        day = store.timeline(both[1:], since=begin, resolution="day")
        assert day.values[both[1]] == [330]

    def test_met_18_what_makes_no_sense_is_refused(self, store: Store, clock: ManualClock) -> None:
        now = clock.now()
        hour = {"since": now - timedelta(hours=1)}
        refused: list[tuple[Any, dict[str, Any], str]] = [
            (["submited"], hour, "there is no metric 'submited': choose from"),
            ([], hour, "metrics must be"),
            ("submitted", hour, "metrics must be"),
            (["leased"], {"since": now.replace(tzinfo=None)}, "since must be a datetime with"),
            (["leased"], {"since": 5}, "since must be a datetime with"),
            (["leased"], {"since": now, "until": now}, "must be later than since"),
            (["leased"], {**hour, "resolution": "hour"}, "resolution must be 'minute' or 'day'"),
            (["leased"], {"since": now - timedelta(days=3)}, "more than 2,880"),
        ]
        for metrics, asked, words in refused:
            with pytest.raises(InvalidWindowError, match=words):
                store.timeline(metrics, **asked)
        most = store.timeline(["leased"], since=now - timedelta(minutes=POINTS_MAX - 1))
        assert len(most.at) == len(most.values["leased"]) == POINTS_MAX
        unknown = store.timeline(["leased"], "nobody", since=now)
        assert unknown.values["leased"] == [0]
