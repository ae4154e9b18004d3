"""Who is raised and who falls: to what a brute-force recount says, however small the parts."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from leasehold.core.rules.inheritance import Compared, spread

Graph = list[tuple[int, set[int]]]

graphs = st.lists(
    st.tuples(st.integers(0, 100), st.sets(st.integers(0, 19), max_size=4)), min_size=1, max_size=20
)
budgets = st.integers(1, 30)


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


class KeptBases:
    """What a store keeps of such jobs."""

    def __init__(self, jobs: Jobs, bases: dict[int, int]) -> None:
        self.jobs = jobs
        self.bases = bases
        self.suspects: set[int] = set()
        self.to_compare: list[tuple[int, list[int]]] = []

    def own_of(self, job: int) -> int:
        return self.jobs.own[job]

    def base_of(self, job: int) -> int:
        return self.bases[job]

    def waiting_for(self, job: int) -> list[tuple[int, int]]:
        return [(each, self.bases[each]) for each in self.bases if job in self.jobs.needs_of(each)]

    def write(self, bases: Mapping[int, int]) -> None:
        self.bases.update(bases)

    def changed(self, job: int, base: int) -> None:
        self.to_compare = [each for each in self.to_compare if each[0] != job]
        self.to_compare.append((job, self.jobs.needs_of(job)))

    def next_suspect(self) -> int | None:
        return self.suspects.pop() if self.suspects else None

    def next_to_compare(self, limit: int) -> Compared[int] | None:
        self.to_compare = [each for each in self.to_compare if each[1]]
        if not self.to_compare:
            return None
        job, needs = max(self.to_compare, key=lambda each: self.bases[each[0]])
        some = [needs.pop() for _ in range(min(limit, len(needs)))]
        return Compared(self.bases[job], [(each, self.bases[each]) for each in some])

    def spread_in_parts(self, budget: int) -> None:
        while self.suspects or any(needs for _, needs in self.to_compare):
            assert spread(self, budget) >= 0


@given(graphs, budgets)
def test_all_are_raised_to_what_they_should_be(graph: Graph, budget: int) -> None:
    jobs = Jobs(graph)
    kept = KeptBases(jobs, dict(enumerate(jobs.own)))
    for job, own in enumerate(jobs.own):
        kept.changed(job, own)
    kept.spread_in_parts(budget)
    assert kept.bases == jobs.bases()


@given(graphs, st.integers(0, 19), budgets)
def test_who_waits_no_more_raises_nobody(graph: Graph, who: int, budget: int) -> None:
    jobs = Jobs(graph)
    kept = KeptBases(jobs, jobs.bases())
    who %= len(graph)
    kept.suspects.update(jobs.needs_of(who))
    jobs.gone.add(who)
    kept.spread_in_parts(budget)
    assert kept.bases == jobs.bases()
