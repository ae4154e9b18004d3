"""Failures by fingerprint: errors that are the same but for their numbers, ids and addresses.

What makes an error the same: queue, task, type, message, and the innermost frame of the application's
own code. Line numbers do not count, so a fingerprint survives an edit elsewhere in the file.
"""

from __future__ import annotations

import hashlib
import re
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from leasehold.core.model.outcome import JobError

SAMPLE_MAX: Final = 5
"""How many jobs a failure names: the latest."""
MESSAGE_READ_MAX: Final = 500
"""How much of a message counts: what is behind it rarely says anything new, and may be long."""

_VARIABLE: Final = re.compile(
    r"(?P<address>\b0x[0-9a-fA-F]+|\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+)"
    r"|(?P<id>\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b(?=[a-zA-Z_]*\d)(?=\d*[a-zA-Z_])(?=(?:[a-zA-Z_]*\d){3})\w{8,}\b)"
    r"|(?P<n>\d+(?:[.:,/T-]\d+)*)"
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


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Attempts that failed in the same way."""

    fingerprint: str
    queue: str
    task: str
    error_type: str
    message: str
    """Without its numbers, ids and addresses."""
    where: str
    """The innermost frame of the application's own code; empty if none is known."""
    count: int
    """How many attempts."""
    first_at: datetime
    last_at: datetime
    jobs: tuple[str, ...]
    """Some of the jobs, the latest first."""

    def then(self, later: Failure) -> Failure:
        """This and what failed in the same way afterwards, as one."""
        jobs = dict.fromkeys((*later.jobs, *self.jobs))
        return msgspec.structs.replace(
            self,
            count=self.count + later.count,
            last_at=later.last_at,
            jobs=tuple(jobs)[:SAMPLE_MAX],
        )


def failure_of(attempt: FailedAttempt, at: datetime) -> Failure:
    """The failure that an attempt is the first of.

    >>> error = JobError("ValueError", "user 17 has no address")
    >>> one = failure_of(FailedAttempt("mail", "send", "job-1", error), datetime(2030, 1, 1))
    >>> one.message, one.count
    ('user <n> has no address', 1)
    """
    queue, task, job_id, error = attempt
    message, where = without_particulars(error.message), own_frame(error.traceback)
    told = "\0".join((queue, task, error.type, message, where))
    digest = hashlib.blake2b(told.encode(errors="surrogatepass"), digest_size=8)
    return Failure(
        fingerprint=digest.hexdigest(),
        queue=queue,
        task=task,
        error_type=error.type,
        message=message,
        where=where,
        count=1,
        first_at=at,
        last_at=at,
        jobs=(job_id,),
    )


def without_particulars(message: str) -> str:
    """A message on one line, without what differs from one time to the next.

    >>> without_particulars("<Door object at 0x7f3a> did not open for anna@example.org in 2.50 s")
    '<Door object at <address>> did not open for <address> in <n> s'
    >>> without_particulars("no order 6f1c2a90-1111-4222-8333-944444444444 of shop_81a7f3c2")
    'no order <id> of <id>'
    """
    read = " ".join(message[:MESSAGE_READ_MAX].split())
    return _VARIABLE.sub(lambda found: f"<{found.lastgroup}>", read)


def own_frame(traceback: str | None) -> str:
    """Where the application's own code was when it failed: file and function.

    >>> own_frame('  File "/srv/shop/mail.py", line 3, in send\\n'
    ...           '  File "/usr/lib/python3.11/smtplib.py", line 341, in connect\\n')
    'shop/mail.py in send'
    """
    end = len(traceback or "")
    while traceback and (start := traceback.rfind(_FRAME, 0, end)) >= 0:
        path, _, rest = traceback[start + len(_FRAME) : end].partition('", line ')
        if rest and not _NOT_OWN.search(path):
            function = rest.partition("\n")[0].partition(", in ")[2]
            name = "/".join(re.split(r"[/\\]", path)[-2:])
            return f"{name} in {function}" if function else name
        end = start
    return ""
