"""`token`: the rights of callers over the network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import click

from leasehold.cli.command import command, group
from leasehold.cli.options import DURATION
from leasehold.cli.output import Column, cell, emit, emit_one
from leasehold.cli.session import Session, actor

if TYPE_CHECKING:
    from leasehold.core.model.tokens import Role, Token

# The names of `core.model.tokens.ROLES`, which is not loaded for `--help`; a test compares the two.
ROLE_NAMES: Final = ("producer", "consumer", "operator", "observer", "admin")

COLUMNS: Final = (
    Column("name", "NAME", fit="cut", least=12),
    Column("roles", "ROLES", ", ".join, fit="cut", least=18),
    Column("queues", "QUEUES", ", ".join, fit="cut"),
    Column("commands", "COMMANDS", fit="keep", spare=1),
    Column("created_by", "CREATED BY", fit="cut", spare=3),
    Column("created_at", "CREATED AT", fit="keep", spare=2),
    Column("expires_at", "EXPIRES AT", fit="keep"),
)


@group
def token() -> None:
    """Tokens: who may do what over the network."""


@command(of=token)
@click.argument("name")
@click.option(
    "--role",
    "roles",
    type=click.Choice(ROLE_NAMES),
    multiple=True,
    required=True,
    help="Its role; may be repeated. An admin may do everything.",
)
@click.option(
    "--queue", "-q", "queues", multiple=True, help="Only for this queue; may be repeated."
)
@click.option("--commands", is_flag=True, help="Allow it to submit command jobs.")
@click.option("--expires", type=DURATION, help="Its lifetime: 12h, 90d. Else until revoked.")
def create(
    session: Session,
    name: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    expires: float | None,
    *,
    commands: bool,
) -> None:
    """Create a token, and print its secret: it is not kept and cannot be shown again.

    Anybody with the secret may do what the token allows. Its actions are audited under its name.

    \b
    Examples:
      queuectl token create ci --role producer --queue builds --expires 90d
      queuectl token create ops --role operator --role producer
    """
    from leasehold.core.model.tokens import TokenDraft, digest_of, new_token_secret
    from leasehold.env import SYSTEM

    draft = TokenDraft(
        name=name,
        roles=tuple(dict.fromkeys(cast("tuple[Role, ...]", roles))),
        queues=queues or None,
        commands=commands,
        lifetime_seconds=expires,
    )
    secret = new_token_secret(SYSTEM)
    made = session.new_queue.store.create_token(draft, digest_of(secret), actor=actor())
    session.tell("Keep this secret: it is shown only now, and only its hash is stored.")
    emit_one(session, {**_document(made), "secret": secret}, show=lambda: click.echo(secret))


@command("list", of=token)
def list_tokens(session: Session) -> None:
    """List the tokens, never their secrets.

    \b
    Example:
      queuectl token list
    """
    found = map(_document, session.queue.store.tokens())
    emit(
        session,
        found,
        COLUMNS,
        nothing="there are no tokens yet: create one with `queuectl token create`",
    )


@command(of=token)
@click.argument("name")
def revoke(session: Session, name: str) -> None:
    """Revoke a token: the next request that comes with it is refused.

    \b
    Example:
      queuectl token revoke ci
    """
    gone = session.queue.store.revoke_token(name, actor=actor())
    emit_one(
        session, _document(gone), show=lambda: click.echo(f"token {cell(gone.name)} is revoked")
    )


def _document(known: Token) -> dict[str, Any]:
    from leasehold.documents.records import document_of

    return document_of(known)
