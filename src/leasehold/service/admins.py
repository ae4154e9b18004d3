"""The operations of admins: tokens, and the audit log."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from leasehold.core.model.limits import SECONDS_MAX
from leasehold.core.model.records import AuditRecord
from leasehold.core.model.tokens import ROLES, Role, Token, TokenDraft, digest_of, new_token_secret
from leasehold.service.base import ApiPart
from leasehold.service.caller import Caller
from leasehold.service.new_job import Moment, Name
from leasehold.service.operation import Answer, Request, operation
from leasehold.service.operators import Nothing
from leasehold.service.producers import PageSize


class CreateToken(Request):
    """The name, roles and limits of a new token."""

    name: Name
    roles: Annotated[list[Role], Meta(min_length=1, max_length=len(ROLES))]
    queues: Annotated[list[Name], Meta(min_length=1)] | None = None
    """The queues that the token is limited to; none for all queues."""
    commands: bool = False
    """Whether the token may submit command jobs."""
    lifetime_seconds: Annotated[float, Meta(gt=0, le=SECONDS_MAX)] | None = None


class NewToken(Answer):
    """A new token, and its secret, which is shown only now."""

    token: Token
    secret: str


class Tokens(Answer):
    """The tokens by name, without their secrets."""

    tokens: list[Token]


class NamedToken(Request):
    """One token."""

    name: str


class TokenAnswer(Answer):
    """The token that was revoked."""

    token: Token


class ReadAudit(Request):
    """The page of the audit log to return."""

    since: Moment | None = None
    """Only entries of this time or later."""
    before: Moment | None = None
    """Only entries of before this time."""
    limit: PageSize = 100
    cursor: str | None = None


class Audit(Answer):
    """Entries of the audit log, newest first, and the cursor of the next page."""

    records: list[AuditRecord]
    next_cursor: str | None = None


class Admins(ApiPart):
    """Operations for those who manage tokens and rights."""

    @operation("GET", "/tokens", "admin")
    def list_tokens(self, caller: Caller, request: Nothing) -> Tokens:
        """List the tokens, without their secrets."""
        return Tokens(tokens=self.store.tokens())

    @operation("POST", "/tokens", "admin", status=201)
    def create_token(self, caller: Caller, request: CreateToken) -> NewToken:
        """Create a token; its secret is shown in this answer only."""
        caller.check_hands_on(commands=request.commands)
        secret = new_token_secret(self.env)
        draft = TokenDraft(
            name=request.name,
            roles=tuple(dict.fromkeys(request.roles)),
            queues=None if request.queues is None else tuple(request.queues),
            commands=request.commands,
            lifetime_seconds=request.lifetime_seconds,
        )
        token = self.store.create_token(draft, digest_of(secret), actor=caller.actor)
        return NewToken(token=token, secret=secret)

    @operation("DELETE", "/tokens/{name}", "admin")
    def revoke_token(self, caller: Caller, request: NamedToken) -> TokenAnswer:
        """Revoke a token; from the next request on, it is refused."""
        return TokenAnswer(token=self.store.revoke_token(request.name, actor=caller.actor))

    @operation("GET", "/audit", "admin")
    def audit(self, caller: Caller, request: ReadAudit) -> Audit:
        """List the entries of the audit log, newest first."""
        page = self.store.audit_page(
            since=request.since,
            before=request.before,
            limit=request.limit,
            cursor=request.cursor,
        )
        return Audit(records=page.records, next_cursor=page.next_cursor)
