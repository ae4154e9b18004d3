"""Who depends on whom, as the memory store keeps it: by id, so that no record leads to another."""

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
        """A job -> those it blocks. Taking one out is the fence: its end counts once."""
        self.dependents: dict[str, dict[str, None]] = {}
        """A job -> all its dependents, in any status."""
        self.unfinished: dict[int, int] = {}
        """A job's number -> how many that have not ended depend on it: it must not be forgotten."""
        self.ended: dict[int, str] = {}
        """Jobs that have ended and whose dependents are still to be told, by number."""
        self._ended_in_order: list[int] = []
        """A heap of their numbers; it may hold stale ones."""
        self.purged: set[str] = set()
        """Those of `ended` that are to be deleted once their dependents are told."""
        self.lowered: set[str] = set()
        """Jobs that lost a dependent which may have raised their priority."""
        self.changed: list[tuple[int, int, str, list[str]]] = []
        """A heap of jobs whose priority for others has changed: the priority below zero, number, id
        and the dependencies that do not know of it yet."""

    def add(self, record: Record, needs: dict[str, int]) -> None:
        """Link a new job to those it depends on."""
        record.needs = needs
        for needed in needs:
            self.dependents.setdefault(needed, {})[record.id] = None
        self.count_unfinished(record, 1)

    def block(self, record: Record, blocked_by: set[str]) -> None:
        """Let a job wait for these; its status is the caller's business."""
        record.blocked_by = blocked_by
        for needed in blocked_by:
            self.blocking.setdefault(needed, {})[record.id] = None

    def satisfy(self, record: Record, needed: str) -> bool:
        """One of the jobs it waits for is in its way no more; True if that was the last."""
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
        """Its dependents are to be told that it has ended."""
        if record.seq not in self.ended:
            self.ended[record.seq] = record.id
            heappush(self._ended_in_order, record.seq)

    def first_ended(self) -> tuple[int, str] | None:
        """Of the jobs in `ended`, the one that was submitted first."""
        while self._ended_in_order:
            seq = self._ended_in_order[0]
            if seq in self.ended:
                return seq, self.ended[seq]
            heappop(self._ended_in_order)
        return None

    def all_told(self, seq: int) -> None:
        """Its dependents are told, or it was replayed."""
        self.purged.discard(self.ended.pop(seq))

    def count_unfinished(self, record: Record, by: int) -> None:
        """Count a job for those it depends on, while it has not ended."""
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
