"""Retry policies and failure classification.

A policy is data: it travels with the job, so that any worker (or the sweep) can apply it.

>>> from random import Random
>>> Exponential(jitter=0).delay_seconds(3, Random(1))
4.0
>>> Delays((1, 10, 60)).delay_seconds(9, Random(1))
60.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import TYPE_CHECKING, Final

import msgspec

from leasehold.core.model.durations import Seconds, plain_seconds
from leasehold.core.model.numbers import plain_number
from leasehold.errors import JobTimeoutError, PermanentError, RetryableError

DELAY_SECONDS_MAX: Final = 366 * 24 * 3600.0


def _check_numbers(policy: msgspec.Struct) -> None:
    for name in policy.__struct_fields__:
        given = getattr(policy, name)
        number = _checked(name, given)
        if number is not given:
            msgspec.structs.force_setattr(policy, name, number)


def _checked(name: str, value: object) -> float:
    number = plain_number(value)
    if number is None and name.endswith("seconds"):
        number = plain_seconds(value)
    # The comparison also refuses NaN, which is neither above nor below anything.
    if number is None or not 0 <= number <= DELAY_SECONDS_MAX:
        raise ValueError(
            f"{name} must be a number between 0 and {DELAY_SECONDS_MAX:.0f}, not {value!r}"
        )
    return number


class Exponential(msgspec.Struct, frozen=True, tag="exponential", forbid_unknown_fields=True):
    """initial_seconds * factor^(attempt - 1), plus up to `jitter` of it, at most cap_seconds."""

    initial_seconds: float = 1.0
    factor: float = 2.0
    jitter: float = 0.1
    cap_seconds: float = 300.0

    if TYPE_CHECKING:

        def __init__(
            self,
            initial_seconds: Seconds = 1.0,
            factor: float = 2.0,
            jitter: float = 0.1,
            cap_seconds: Seconds = 300.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_numbers(self)

    def delay_seconds(self, attempt: int, random: Random) -> float:
        try:
            base = self.initial_seconds * float(self.factor) ** (attempt - 1)
        except OverflowError:
            # Too large for a float is larger than any cap, unless there is nothing to multiply.
            return self.cap_seconds if self.initial_seconds else 0.0
        return min(base * (1 + self.jitter * random.random()), self.cap_seconds)


class Linear(msgspec.Struct, frozen=True, tag="linear", forbid_unknown_fields=True):
    """initial_seconds, then step_seconds more each time, at most cap_seconds."""

    initial_seconds: float = 1.0
    step_seconds: float = 1.0
    cap_seconds: float = 300.0

    if TYPE_CHECKING:

        def __init__(
            self,
            initial_seconds: Seconds = 1.0,
            step_seconds: Seconds = 1.0,
            cap_seconds: Seconds = 300.0,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_numbers(self)

    def delay_seconds(self, attempt: int, random: Random) -> float:
        return min(self.initial_seconds + self.step_seconds * (attempt - 1), self.cap_seconds)


class Constant(msgspec.Struct, frozen=True, tag="constant", forbid_unknown_fields=True):
    """The same delay before every retry."""

    seconds: float = 1.0

    if TYPE_CHECKING:

        def __init__(self, seconds: Seconds = 1.0) -> None: ...

    def __post_init__(self) -> None:
        _check_numbers(self)

    def delay_seconds(self, attempt: int, random: Random) -> float:
        return float(self.seconds)


class Delays(msgspec.Struct, frozen=True, tag="delays", forbid_unknown_fields=True):
    """One delay per retry; the last one is used from then on."""

    seconds: tuple[float, ...]

    if TYPE_CHECKING:

        def __init__(self, seconds: Iterable[Seconds]) -> None: ...

    def __post_init__(self) -> None:
        if not self.seconds:
            raise ValueError("Delays needs at least one delay")
        numbers = tuple(_checked("seconds", value) for value in self.seconds)
        msgspec.structs.force_setattr(self, "seconds", numbers)

    def delay_seconds(self, attempt: int, random: Random) -> float:
        return float(self.seconds[min(attempt, len(self.seconds)) - 1])


RetryPolicy = Exponential | Linear | Constant | Delays
Backoff = RetryPolicy | Callable[[int, BaseException], float]
"""A task's retry: a policy, or a function of (attempt, error) run by its worker."""

DEFAULT_POLICY: Final = Exponential()

PERMANENT: Final[tuple[type[BaseException], ...]] = (
    PermanentError,
    TypeError,
    ValueError,
    AttributeError,
    KeyError,
    ImportError,
    SyntaxError,
    AssertionError,
)
"""Failures that a retry cannot fix: a bug or bad input, not bad luck."""

RETRYABLE: Final[tuple[type[BaseException], ...]] = (
    RetryableError,
    OSError,
    TimeoutError,
    JobTimeoutError,
)
"""Failures that are retried although a permanent class may be among their bases."""


_BUGS: Final = frozenset(cls.__name__ for cls in PERMANENT) - {PermanentError.__name__}
_CANNOT_BE_HELPED: Final = frozenset(
    {
        "PayloadError",
        "PayloadTooLargeError",
        "StoreError",
        "TaskNotImportableError",
        "CommandNotFound",
        "CommandNotStarted",
    }
)
"""Failures that Leasehold itself detects and another attempt would meet again."""


def why_not_retried(error_type: str, attempts: int, allowance: int) -> str:
    """Why a job whose attempt failed is not tried again, and what would change that.

    >>> why_not_retried("OSError", 4, 4)
    'all 4 attempts are used up'
    >>> why_not_retried("KeyError", 1, 4)
    'not retried: KeyError counts as a bug in the task; name it in retryable= to try again'
    """
    if attempts >= allowance:
        return (
            f"all {allowance} attempts are used up" if allowance > 1 else "it had only one attempt"
        )
    if error_type in _BUGS:
        why = f"{error_type} counts as a bug in the task; name it in retryable= to try again"
    elif error_type == PermanentError.__name__:
        why = "the task raised PermanentError"
    elif error_type == "Nack":
        why = "the consumer refused a retry"
    elif error_type in _CANNOT_BE_HELPED:
        why = "another attempt would fail the same way"
    else:
        why = f"{error_type} counts as permanent; name it in retryable= to try again"
    return f"not retried: {why}"


def is_retryable(
    error: BaseException,
    permanent: tuple[type[BaseException], ...] = PERMANENT,
    retryable: tuple[type[BaseException], ...] = RETRYABLE,
) -> bool:
    """Whether a failed attempt should be tried again.

    The nearest class among the error's bases decides, so that a subclass can overrule its base. An
    error that neither list names is retried.

    >>> is_retryable(ConnectionError()), is_retryable(KeyError("x")), is_retryable(RuntimeError())
    (True, False, True)
    """
    for cls in type(error).__mro__:
        if cls in retryable:
            return True
        if cls in permanent:
            return False
    return True
