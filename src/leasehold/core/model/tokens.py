"""API tokens: the rights of callers over the network. Only the hash of a secret is ever kept."""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Final, Literal, get_args

import msgspec

from leasehold.core.model.limits import NAME_LENGTH_MAX, SECONDS_MAX
from leasehold.core.model.phrases import listed
from leasehold.core.model.text import is_text
from leasehold.env import Env
from leasehold.errors import InvalidTokenError

Role = Literal["producer", "consumer", "operator", "observer", "admin"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
LOOKING: Final[tuple[Role, ...]] = ("producer", "consumer", "operator", "observer")
"""Roles that may read jobs, queues and figures; an observer may do nothing else."""

SECRET_PREFIX: Final = "lh_"  # noqa: S105  # the part that is no secret
"""It lets people and secret scanners recognise a token."""


class TokenDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A token that is to be created."""

    name: str
    """Unique among the tokens of a store; actions by the token are audited under it."""
    roles: tuple[Role, ...]
    """An admin may do everything; the other roles add up."""
    queues: tuple[str, ...] | None = None
    """The queues to which it is limited; None for all."""
    commands: bool = False
    """Whether it may submit command jobs, which run any program where a worker allows them."""
    lifetime_seconds: float | None = None
    """Counted by the store's clock; None for a token that is valid until it is revoked."""

    def check(self) -> None:
        """Raise InvalidTokenError, with field and reason, for an invalid token."""
        _check_name("name", self.name)
        if not self.roles or any(role not in ROLES for role in self.roles):
            raise InvalidTokenError(
                f"token {self.name!r} needs one or more roles of {listed(ROLES)}"
            )
        if self.queues is not None:
            if not self.queues:
                raise InvalidTokenError(
                    f"token {self.name!r} would be valid for no queue: name at least one, or "
                    f"leave queues out for all"
                )
            if "admin" in self.roles:
                raise InvalidTokenError(
                    f"token {self.name!r}: an admin may do everything, so it cannot be limited "
                    f"to some queues"
                )
            for queue in self.queues:
                _check_name("queue", queue)
        # The comparison also refuses NaN, which is neither above nor below anything.
        if self.lifetime_seconds is not None and not 0 < self.lifetime_seconds <= SECONDS_MAX:
            raise InvalidTokenError(
                f"token {self.name!r}: its lifetime must be above 0 and at most ten years in "
                f"seconds, not {self.lifetime_seconds!r}"
            )


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """A token as the store knows it; only its holder knows the secret."""

    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    commands: bool = False
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None

    @classmethod
    def of(cls, draft: TokenDraft, now: datetime, actor: str) -> Token:
        """The token made from a checked draft."""
        lifetime = draft.lifetime_seconds
        return cls(
            name=draft.name,
            roles=draft.roles,
            queues=draft.queues,
            commands=draft.commands,
            created_at=now,
            created_by=actor,
            expires_at=None if lifetime is None else now + timedelta(seconds=lifetime),
        )

    def is_good_at(self, now: datetime) -> bool:
        """Whether it has not expired."""
        return self.expires_at is None or now < self.expires_at


def new_token_secret(env: Env) -> str:
    """The secret that the holder of a token sends: 256 bits that cannot be guessed.

    >>> from leasehold.env import SYSTEM
    >>> len(new_token_secret(SYSTEM))
    67
    """
    return SECRET_PREFIX + env.new_secret() + env.new_secret()


def digest_of(secret: str) -> str:
    """The stored hash of a secret, whose 256 random bits make a plain hash impossible to invert."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _check_name(what: str, value: str) -> None:
    if not (0 < len(value) <= NAME_LENGTH_MAX and value.isprintable() and is_text(value)):
        raise InvalidTokenError(
            f"a token's {what} is text of 1 to {NAME_LENGTH_MAX} characters without control "
            f"characters, not {value!r}"
        )
