"""Who is raised and who falls: each job once, and to what a brute-force recount says."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.rules.inheritance import lowered, raised

graphs = st.lists(
    st.tuples(st.integers(0, 100), st.sets(st.integers(0, 19), max_size=4)), min_size=1, max_size=20
)


class Jobs:
    """Jobs by number; each waits for some with a lower one."""

    def __init__(self, graph: list[tuple[int, set[int]]]) -> None:
        self.own = [priority for priority, _ in graph]
        self.needs = [{each for each in needs if each < n} for n, (_, needs) in enumerate(graph)]
        self.gone: set[int] = set()

    def bases(self) -> dict[int, int]:
        bases = dict(enumerate(self.own))
        # Whoever waits has the higher number, so its base is known before it is handed on.
        for job in reversed(range(len(self.own))):
            for needed in self.needs_of(job):
                bases[needed] = max(bases[needed], bases[job])
        return bases

    def needs_of(self, job: int) -> list[int]:
        return [] if job in self.gone else sorted(self.needs[job])

    def waiting_for(self, job: int, bases: dict[int, int]) -> list[tuple[int, int]]:
        return [(each, bases[each]) for each in bases if job in self.needs_of(each)]


@given(graphs)
def test_all_are_raised_to_what_they_should_be(graph: list[tuple[int, set[int]]]) -> None:
    jobs = Jobs(graph)
    asked: Counter[int] = Counter()

    def needs_of(job: int) -> list[int]:
        asked[job] += 1
        return jobs.needs_of(job)

    found = raised(list(enumerate(jobs.own)), needs_of, jobs.own.__getitem__)
    assert dict(enumerate(jobs.own)) | found == jobs.bases()
    # Once for its own priority and once for the one it was raised to.
    assert all(count <= 2 for count in asked.values())


@given(graphs, st.integers(0, 19))
def test_who_waits_no_more_raises_nobody(graph: list[tuple[int, set[int]]], who: int) -> None:
    jobs = Jobs(graph)
    before = jobs.bases()
    who %= len(graph)
    suspects = jobs.needs_of(who)
    jobs.gone.add(who)
    found = lowered(
        suspects,
        jobs.needs_of,
        before.__getitem__,
        jobs.own.__getitem__,
        lambda job: jobs.waiting_for(job, before),
    )
    assert before | found == jobs.bases()
