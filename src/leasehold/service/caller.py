"""The caller, and their rights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import msgspec

from leasehold.core.model.graph import GraphNode
from leasehold.core.model.job import COMMAND_TASK, Job
from leasehold.core.model.own_names import own_prefix
from leasehold.core.model.phrases import first_of, listed
from leasehold.core.model.refusals import no_job
from leasehold.core.model.search import JobFilter
from leasehold.core.model.tokens import ROLES, Role, Token
from leasehold.errors import ForbiddenError


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """A token's holder, or anybody if the service is open to this machine."""

    name: str
    roles: frozenset[Role]
    queues: frozenset[str] | None = None
    """The only queues that they may see and touch; None for all."""
    commands: bool = False
    digest: str | None = None
    """The hash of the token, to check later whether it is still valid; None without a token."""
    token: Token | None = None

    @classmethod
    def of(cls, token: Token, digest: str) -> Caller:
        """The caller with this token."""
        return cls(
            name=token.name,
            digest=digest,
            token=token,
            roles=frozenset(token.roles),
            queues=None if token.queues is None else frozenset(token.queues),
            commands=token.commands,
        )

    @property
    def actor(self) -> str:
        """The name in audit records."""
        return f"token:{self.name}"

    def request_id(self, given: str | None, part: int = 0) -> str | None:
        """The store's id for a request, unique to this caller even if others use the same one.

        `part` numbers the calls of the store that one request makes.
        """
        if given is None:
            return None
        named = f"{len(self.name)}:{self.name}:{part}:{given}".encode(errors="replace")
        return hashlib.sha256(named).hexdigest()

    def check_role(self, roles: Iterable[Role]) -> None:
        """Refuse a caller with none of these roles; an admin has all of them."""
        if "admin" not in self.roles and self.roles.isdisjoint(roles):
            raise ForbiddenError(
                f"this needs the role {' or '.join(roles)}, and token {self.name!r} has "
                f"{listed(sorted(self.roles))}: create a token that also has that role (a token "
                "may have several)"
            )

    def check_queue(self, *queues: str) -> None:
        """Refuse queues outside the token's scope."""
        if self.queues is not None:
            for queue in queues:
                if queue not in self.queues:
                    raise ForbiddenError(
                        f"token {self.name!r} is not valid for queue {queue!r}, only for "
                        f"{listed(sorted(self.queues))}"
                    )

    def check_unscoped(self) -> None:
        """Refuse a token that is limited to some queues, since the request concerns all of them."""
        if self.queues is not None:
            raise ForbiddenError(
                f"token {self.name!r} is limited to "
                f"{'queue' if len(self.queues) == 1 else 'queues'} {first_of(sorted(self.queues))};"
                " this needs a token for all queues"
            )

    def check_hands_on(self, *, commands: bool) -> None:
        """Refuse to make a token that may do more than its maker, or outlives their right to."""
        if self.digest is None:
            raise ForbiddenError(
                "a token is created on the command line (`queuectl token create`), or with the "
                "token of an admin"
            )
        if commands and not self.commands:
            raise ForbiddenError(
                f"token {self.name!r} may not submit command jobs, so it cannot let others: create "
                "this one on the command line, with --commands"
            )

    def check_task(self, task: str) -> None:
        """Refuse command jobs from callers who may not submit them: they run any program."""
        if task == COMMAND_TASK and not self.commands:
            raise ForbiddenError(
                f"token {self.name!r} may not submit command jobs: create one with --commands"
            )

    def check_new_name(self, what: str, name: str, queue: str) -> None:
        """Refuse the name of something new that could be taken in another queue.

        It is refused whether it is taken or not, since the difference would reveal the other job.
        """
        prefix = own_prefix(queue)
        if self.queues is not None and not name.startswith(prefix):
            raise ForbiddenError(
                f"token {self.name!r} is limited to some queues: {what} that it chooses for "
                f"queue {queue!r} begins with {prefix!r}"
            )

    def worker_name(self, given: str) -> str:
        """The name under which a worker of this caller is registered.

        A token limited to some queues has its own names, so it can neither touch other callers'
        workers nor learn that they exist.
        """
        prefix = own_prefix(self.name)
        if self.queues is None or not given or given.startswith(prefix):
            return given
        return prefix + given

    def check_job(self, job: Job | None, job_id: str) -> Job:
        """The job; a job outside the token's scope is treated like one that does not exist."""
        if job is None or not self.may_see(job):
            raise no_job(job_id)
        return job

    def may_see(self, job: Job | GraphNode | None) -> bool:
        """Whether a job's queue is in the token's scope."""
        return job is not None and (self.queues is None or job.queue in self.queues)

    def within(self, where: JobFilter) -> JobFilter:
        """The filter, narrowed to the token's scope."""
        if self.queues is None:
            return where
        if where.queues is None:
            return msgspec.structs.replace(where, queues=tuple(sorted(self.queues)))
        self.check_queue(*where.queues)
        return where


ANYBODY: Final = Caller(name="anybody", roles=frozenset(ROLES))
"""A caller of a service that is open to its own machine: command jobs are not for them."""
