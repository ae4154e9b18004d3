"""Failures by fingerprint: errors that differ only in numbers, ids and addresses.

Two errors are the same if they agree in queue, task, type, message, and the innermost frame of the
application's own code. Line numbers do not count: a fingerprint survives an edit elsewhere in the
file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from functools import lru_cache
from itertools import zip_longest
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.outcome import JobError

SAMPLE_MAX: Final = 5
"""How many of its latest jobs a failure names."""
HOURS_KEPT: Final = 72
"""The number of hours for which a failure has counts by hour."""
MESSAGE_READ_MAX: Final = 500
"""How much of a message is compared: the rest rarely adds anything, and may be long."""
WORDS_REMEMBERED: Final = 4096

_VARIABLE: Final = re.compile(
    r"(?P<address>\b0x[0-9a-fA-F]+|\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+)"
    r"|(?P<id>\b\w{0,64}?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=\d*[a-zA-Z_])(?=(?:[a-zA-Z_]*\d){3})\w{8,}\b)"
    # A number must not run on into an id.
    r"|(?P<n>\d+(?:[.:,/T-](?![0-9a-fA-F]{8}-[0-9a-fA-F]{4}-)\d+(?!\d|(?!Z|T\d)[a-zA-Z]))*)"
)
_FRAME: Final = '  File "'
_NOT_OWN: Final = re.compile(
    r"site-packages|dist-packages|[/\\]lib[/\\]python\d|[/\\]Lib[/\\]|^<|[/\\]leasehold[/\\]"
)


class FailedAttempt(NamedTuple):
    """An attempt that ended with an error."""

    queue: str
    task: str
    job_id: str
    error: JobError


class WhatFailed(NamedTuple):
    """The traits shared by attempts that failed in the same way."""

    queue: str
    task: str
    error_type: str
    message: str
    frame: str

    @property
    def fingerprint(self) -> str:
        told = "\0".join(self).encode(errors="surrogatepass")
        return hashlib.blake2b(told, digest_size=8).hexdigest()


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that failed in the same way."""

    fingerprint: str
    queue: str
    task: str
    error_type: str
    message: str
    """The message without its numbers, ids and addresses."""
    frame: str
    """The innermost frame of the application's own code; empty if none is known."""
    count: int
    """How many attempts."""
    first_at: datetime
    last_at: datetime
    jobs: tuple[str, ...]
    """Some of the jobs, the latest first."""
    hours: tuple[int, ...] = ()
    """Failed attempts in the hour (UTC) of `last_at`, in the hour before, and so on."""

    @classmethod
    def of(cls, what: WhatFailed, jobs: Sequence[str], at: datetime) -> Failure:
        """A failure made of attempts of these jobs that failed at the same time."""
        return cls(
            fingerprint=what.fingerprint,
            queue=what.queue,
            task=what.task,
            error_type=what.error_type,
            message=what.message,
            frame=what.frame,
            count=len(jobs),
            first_at=at,
            last_at=at,
            jobs=_sample(jobs[::-1]),
            hours=(len(jobs),),
        )

    def then(self, later: Failure) -> Failure:
        """This failure merged with a later one of the same kind."""
        return msgspec.structs.replace(
            self,
            count=self.count + later.count,
            last_at=later.last_at,
            jobs=_sample((*later.jobs, *self.jobs)),
            hours=_side_by_side(self.hours_at(later.last_at), later.hours),
        )

    def hours_at(self, now: datetime) -> tuple[int, ...]:
        """The counts by hour, beginning with the hour of a given time.

        >>> noon = datetime.fromisoformat("2030-01-01T12:00:00+00:00")
        >>> what = what_failed(FailedAttempt("mail", "send", "job-1", JobError("ValueError", "")))
        >>> Failure.of(what, ["job-1"], noon).hours_at(noon.replace(hour=14))
        (0, 0, 1)
        """
        passed = max(0, _hour(now) - _hour(self.last_at))
        return ((0,) * min(passed, HOURS_KEPT) + self.hours)[:HOURS_KEPT]


def _hour(moment: datetime) -> int:
    return int(moment.timestamp()) // 3600


def _side_by_side(one: Sequence[int], two: Sequence[int]) -> tuple[int, ...]:
    return tuple(map(sum, zip_longest(one, two, fillvalue=0)))


def _sample(jobs: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(jobs))[:SAMPLE_MAX]


def what_failed(attempt: FailedAttempt) -> WhatFailed:
    """The traits that an attempt shares with others that fail in the same way.

    >>> error = JobError("ValueError", "user 17 has no address")
    >>> what_failed(FailedAttempt("mail", "send", "job-1", error)).message
    'user <n> has no address'
    """
    queue, task, _, error = attempt
    message, frame = without_particulars(error.message), own_frame(error.traceback)
    return WhatFailed(queue, task, error.type, message, frame)


def without_particulars(message: str) -> str:
    """A message on one line, without the parts that differ from one occurrence to the next.

    >>> without_particulars("<Door object at 0x7f3a> did not open for anna@example.org in 2.50 s")
    '<Door object at <address>> did not open for <address> in <n> s'
    >>> without_particulars("no order 6f1c2a90-1111-4222-8333-944444444444 of shop_81a7f3c2")
    'no order <id> of <id>'
    """
    words = message[:MESSAGE_READ_MAX].split()
    return " ".join([word if word.isalpha() else _without_particulars(word) for word in words])


@lru_cache(WORDS_REMEMBERED)
def _without_particulars(word: str) -> str:
    return _VARIABLE.sub(lambda found: f"<{found.lastgroup}>", word)


def own_frame(traceback: str | None) -> str:
    r"""The file and function of the application's own code in which the error arose.

    >>> own_frame('  File "/srv/shop/mail.py", line 3, in send\n'
    ...           '  File "/usr/lib/python3.11/smtplib.py", line 341, in connect\n')
    'shop/mail.py in send'
    """
    if not traceback:
        return ""
    start = len(traceback)
    while (start := traceback.rfind(_FRAME, 0, start)) >= 0:
        end = traceback.find("\n", start)
        found = _own_frame(traceback[start + len(_FRAME) : end if end > 0 else None])
        if found:
            return found
    return ""


@lru_cache(WORDS_REMEMBERED)
def _own_frame(line: str) -> str:
    """A frame's file and function; empty if it is not the application's own."""
    path, _, rest = line.partition('", line ')
    if _NOT_OWN.search(path):
        return ""
    name = "/".join(re.split(r"[/\\]", path)[-2:])
    function = rest.partition(", in ")[2]
    return f"{name} in {function}" if function else name
