"""`config`: settings that are kept in the store, and followed by all processes that use it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from leasehold.cli.command import command, group
from leasehold.cli.output import Column, emit, emit_one
from leasehold.cli.session import Session

if TYPE_CHECKING:
    from leasehold.queue.settings import SettingInfo

COLUMNS: Final = (
    Column("name", "NAME", fit="keep"),
    Column("text", "VALUE", fit="keep"),
    Column("default_text", "DEFAULT", fit="keep", spare=1),
    Column("source", "SOURCE", fit="keep", spare=2),
    Column("help", "MEANING", fit="cut", spare=3, least=30),
)


def _names(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    from leasehold.core.model.settings import DEFINITIONS

    return [name for name in DEFINITIONS if name.startswith(incomplete)]


_name = click.argument("name", shell_complete=_names)


@group
def config() -> None:
    """Settings in the store, which running workers follow."""


@command("list", of=config)
def list_settings(session: Session) -> None:
    """List every setting, with its value, its default and what it means.

    \b
    Example:
      queuectl config list
    """
    emit(session, map(_document, session.queue.settings), COLUMNS)


@command(of=config)
@_name
def get(session: Session, name: str) -> None:
    """Print the value of one setting.

    -o json adds its default, its allowed values, where it applies and its meaning.

    \b
    Example:
      queuectl config get max_retries
    """
    info = session.queue.settings.info(name)
    emit_one(session, _document(info), show=lambda: click.echo(info.text))


@command("set", of=config)
@_name
@click.argument("value")
def set_setting(session: Session, name: str, value: str) -> None:
    """Set a value for all processes of this store.

    A job, queue or worker with its own value keeps that. Running workers follow the change. An
    invalid value is refused, and nothing is changed.

    \b
    Examples:
      queuectl config set max_retries 5
      queuectl config set lease_seconds 10m
      queuectl config set retention_dead_seconds none
    """
    _tell(session, session.new_queue.settings.set(name, value))


@command(of=config)
@_name
def unset(session: Session, name: str) -> None:
    """Remove a value, so that the default applies.

    \b
    Example:
      queuectl config unset max_retries
    """
    _tell(session, session.queue.settings.unset(name))


def _tell(session: Session, info: SettingInfo) -> None:
    emit_one(
        session,
        _document(info),
        show=lambda: click.echo(f"{info.name} is {info.text} ({info.source.value})"),
    )


def _document(info: SettingInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "value": info.value,
        "text": info.text,
        "default": info.default,
        "default_text": info.default_text,
        "source": info.source,
        "kind": info.definition.kind,
        "allowed": info.allowed,
        "acts": info.acts,
        "help": info.help,
    }
