"""The dependencies of jobs in the memory store: by id, so that no record refers to another."""

from __future__ import annotations

from heapq import heappop, heappush

from leasehold.stores.memory.record import Record


class JobLinks:
    """The links between jobs. A store without dependencies has only empty ones."""

    __slots__ = (
        "_ended_in_order",
        "blocking",
        "changed",
        "dependents",
        "ended",
        "lowered",
        "purged",
        "unfinished",
    )

    def __init__(self) -> None:
        self.blocking: dict[str, dict[str, None]] = {}
        """A job -> the jobs it blocks. Removing one is the fence: its end counts once."""
        self.dependents: dict[str, dict[str, None]] = {}
        """A job -> all its dependents, in any status."""
        self.unfinished: dict[int, int] = {}
        """A job's number -> how many unfinished jobs depend on it: it must not be forgotten."""
        self.ended: dict[int, str] = {}
        """Ended jobs whose dependents are still to be handled, by number."""
        self._ended_in_order: list[int] = []
        """A heap of their numbers; it may hold stale ones."""
        self.purged: set[str] = set()
        """The jobs in `ended` to delete once their dependents have been handled."""
        self.lowered: set[str] = set()
        """Jobs that lost a dependent that may have raised their priority."""
        self.changed: list[tuple[int, int, str, list[str]]] = []
        """A heap of jobs whose base has changed: the negated base, number, id, and the dependencies
        not yet compared with it.
        """

    def add(self, record: Record, needs: dict[str, int]) -> None:
        """Link a new job to its dependencies."""
        record.needs = needs
        for needed in needs:
            self.dependents.setdefault(needed, {})[record.id] = None
        self.count_unfinished(record, 1)

    def block(self, record: Record, blocked_by: set[str]) -> None:
        """Make a job wait for these; the caller sets its status."""
        record.blocked_by = blocked_by
        for needed in blocked_by:
            self.blocking.setdefault(needed, {})[record.id] = None

    def satisfy(self, record: Record, needed: str) -> bool:
        """Remove one of its blockers; True if that was the last."""
        assert record.blocked_by is not None
        record.blocked_by.discard(needed)
        self._take_out(needed, record.id)
        return not record.blocked_by

    def unblock(self, record: Record) -> None:
        """Remove all its blockers."""
        self.lowered.update(record.blocked_by or ())
        for needed in record.blocked_by or ():
            self._take_out(needed, record.id)
        record.blocked_by = None

    def note_ended(self, record: Record) -> None:
        """Record that it has ended, so that its dependents are handled."""
        if record.seq not in self.ended:
            self.ended[record.seq] = record.id
            heappush(self._ended_in_order, record.seq)

    def first_ended(self) -> tuple[int, str] | None:
        """The job in `ended` that was submitted first."""
        while self._ended_in_order:
            seq = self._ended_in_order[0]
            if seq in self.ended:
                return seq, self.ended[seq]
            heappop(self._ended_in_order)
        return None

    def all_told(self, seq: int) -> None:
        """Its dependents have been handled, or it was replayed."""
        self.purged.discard(self.ended.pop(seq))

    def count_unfinished(self, record: Record, by: int) -> None:
        """Count an unfinished job for its dependencies."""
        for needed in (record.needs or {}).values():
            count = self.unfinished.get(needed, 0) + by
            if count:
                self.unfinished[needed] = count
            else:
                del self.unfinished[needed]

    def forget(self, record: Record) -> None:
        """Forget an ended job without dependents."""
        self.dependents.pop(record.id, None)
        for needed in record.needs or ():
            theirs = self.dependents.get(needed, {})
            theirs.pop(record.id, None)
            if not theirs:
                self.dependents.pop(needed, None)

    def _take_out(self, needed: str, dependent: str) -> None:
        blocked = self.blocking[needed]
        del blocked[dependent]
        if not blocked:
            del self.blocking[needed]
