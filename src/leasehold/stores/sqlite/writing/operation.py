"""What the writer carries out: a function of the write, or one of a kind that is done in groups."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Generic, Self, TypeVar

from leasehold.stores.sqlite.writing.step import Step

T = TypeVar("T")


class Grouped(ABC, Generic[T]):
    """An operation of a kind that shares statements: those that wait at the same time are done as
    one, unless one of them turns out to be bad.
    """

    __slots__ = ()

    @abstractmethod
    def __call__(self, step: Step) -> T:
        """Do this one alone."""

    @classmethod
    @abstractmethod
    def together(cls, step: Step, operations: Sequence[Self]) -> list[T]:
        """Do all of these; raises, and may leave anything behind, if any of them would."""
