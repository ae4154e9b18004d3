"""How long the jobs of a task took, told by jobs of which each duration is known."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.model.job import Job
from leasehold.core.model.status import Status
from leasehold.queue.task_figures import figures_by_task

DUE = datetime(2030, 1, 1, tzinfo=UTC)


def ended(waited: int, ran: int) -> Job:
    """A job that waited and ran for so many milliseconds."""
    start = DUE + timedelta(milliseconds=waited)
    end = start + timedelta(milliseconds=ran)
    return Job(
        id="job",
        queue="default",
        task="t",
        priority=50,
        payload_data=b"",
        status=Status.COMPLETED,
        created_at=DUE,
        run_at=DUE,
        started_at=start,
        completed_at=end,
        updated_at=end,
    )


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=40))
def test_no_percentile_is_above_the_longest_run(ran: list[int]) -> None:
    [figures] = figures_by_task([ended(3, each) for each in ran])
    run, longest = figures.run, figures.run_max_seconds
    percentiles = [run.p50_seconds or 0.0, run.p95_seconds or 0.0, run.p99_seconds or 0.0]
    assert percentiles == sorted(percentiles)
    assert min(ran) / 1000 <= percentiles[0] <= percentiles[2] <= longest == max(ran) / 1000
    assert percentiles[0] == sorted(ran)[(len(ran) + 1) // 2 - 1] / 1000
    assert (figures.wait.p50_seconds, figures.wait.count) == (0.003, len(ran))
