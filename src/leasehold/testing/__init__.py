"""For your tests: run jobs inline, drain a queue, look at submitted jobs, advance the clock.

>>> from leasehold.testing import assert_submitted, drain, memory_queue
>>> queue = memory_queue()
>>> @queue.task(name="greet")
... def greet(name: str) -> str:
...     return f"Hello {name}"
>>> job = greet.submit("Ada")
>>> _ = assert_submitted(queue, greet, args=("Ada",))
>>> drain(queue).completed
1
>>> job.result()
'Hello Ada'
"""

from leasehold.env import Env
from leasehold.testing.clock import ManualClock
from leasehold.testing.kit import (
    Drained,
    InlineQueue,
    assert_submitted,
    drain,
    memory_queue,
    refute_submitted,
    submitted,
)

__all__ = [
    "Drained",
    "Env",
    "InlineQueue",
    "ManualClock",
    "assert_submitted",
    "drain",
    "memory_queue",
    "refute_submitted",
    "submitted",
]
