"""Tokens of enqueue rates that one write has taken elsewhere, from an accelerator.

Tokens that no stored job has used are put back when the write is over, all of them if it failed or
its connection was lost. An application that rolls back its own transaction loses its tokens, which
refill over time.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

from leasehold.core.contract.accelerator import Accelerator, TakenTokens
from leasehold.core.model.rate import Rate

Bucket = tuple[str, str]
"""A queue and the name of a bucket in it."""


class _Loan:
    __slots__ = ("full_at", "now", "rate", "tokens", "used")

    def __init__(self, rate: Rate, tokens: TakenTokens, now: int) -> None:
        self.rate = rate
        self.tokens = tokens
        self.now = now
        self.full_at = (now + tokens.ahead_micros) * 1000
        self.used = 0
        """Tokens used by accepted jobs."""


class Loans:
    """The tokens borrowed by one try of a write; used as a block, at whose end they are settled."""

    __slots__ = ("_accelerator", "_are_kept", "_loans")

    def __init__(self, accelerator: Accelerator | None) -> None:
        self._accelerator = accelerator
        self._loans: dict[Bucket, _Loan] = {}
        self._are_kept = False

    @property
    def are_to_be_had(self) -> bool:
        """Whether an accelerator counts how fast jobs arrive."""
        return self._accelerator is not None and self._accelerator.is_up

    def take(self, bucket: Bucket, rate: Rate, jobs: int, least: int, now: int) -> int | None:
        """Take tokens for `jobs` jobs, or for at least `least`; returns when the bucket would have
        been full before, in nanoseconds. None if Redis does not count.
        """
        if bucket not in self._loans:
            if self._accelerator is None:
                return None
            tokens = self._accelerator.take(bucket, rate, jobs, least=least, now=now)
            if tokens is None:
                return None
            self._loans[bucket] = _Loan(rate, tokens, now)
        return self._loans[bucket].full_at

    def use(self, bucket: Bucket, full_at: int) -> bool:
        """Use tokens of accepted jobs, which moved a bucket's time this far; False if that bucket
        is kept here.
        """
        loan = self._loans.get(bucket)
        if loan is None:
            return False
        moved = full_at - max(loan.full_at, loan.now * 1000)
        loan.used = moved // loan.rate.interval_nanos
        return True

    def keep(self) -> None:
        """Called when the jobs are stored."""
        self._are_kept = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for bucket, loan in self._loans.items():
            more = (loan.used if self._are_kept else 0) - loan.tokens.jobs
            if more and self._accelerator is not None:
                self._accelerator.correct(bucket, loan.rate, more, now=loan.now)
