"""What operations ask of a store: where their records are kept, and which jobs come next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from leasehold.core.model.search import JobFilter
from leasehold.core.rules.undoing import OperationPart

if TYPE_CHECKING:
    from leasehold.core.rules.operations import Operation


class JobsToFind(NamedTuple):
    """A reader's search for the next write of an operation."""

    where: JobFilter
    limit: int
    cursor: str | None
    oldest_first: bool


class JobsFound(NamedTuple):
    """A reader's findings for the next write of an operation."""

    job_ids: Sequence[str]
    next_cursor: str | None


class OperationShelf(Protocol):
    """Where a store keeps its operations, inside one write."""

    @property
    def now(self) -> int:
        """The store's clock, in microseconds."""

    def find(self, operation_id: str) -> Operation | None:
        """An operation, which no other process changes until this write is over."""

    def add(self, operation: Operation) -> None: ...

    def replace(self, operation: Operation) -> None: ...

    def add_part(self, operation_id: str, number: int, part: OperationPart) -> None:
        """Keep what jobs were before the operation's write of this number, from 0."""

    def part(self, operation_id: str, number: int) -> OperationPart | None: ...

    def forget_all_but(self, operations: int, with_parts: int) -> None:
        """Forget all but so many operations, the latest, and the parts of all but so many."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...
