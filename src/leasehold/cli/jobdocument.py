"""A job as a JSON document, as `enqueue` takes it: one argument, or one line of a file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import click
import msgspec

from leasehold.cli.options import DURATION, MOMENT, PRIORITY
from leasehold.codec.document import decode_document
from leasehold.core.model.job import MetadataValue
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.errors import InvalidJobError
from leasehold.queue.commands import command_job
from leasehold.queue.options import NewJob

DOCUMENT_BYTES_MAX: Final = 64 * 1024 * 1024
"""For a job as text: its payload may be kept as a blob, but passes through memory."""


class JobDocument(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Either `command` (text for a shell, or a list for none) or `task`; the rest as need be.

    Durations are seconds, or text such as "10m"; times are ISO 8601, or "+10m" from now.
    """

    id: str | None = None
    command: str | list[str] | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    stdin: str | None = None
    task: str | None = None
    args: list[Any] | None = None
    kwargs: dict[str, Any] | None = None
    payload: Any = msgspec.UNSET
    """Any JSON, in place of args and kwargs."""
    queue: str | None = None
    priority: int | str | None = None
    max_retries: int | None = None
    timeout: float | str | None = None
    delay: float | str | None = None
    run_at: str | None = None
    deadline: str | None = None
    start_within: float | str | None = None
    result_ttl: float | str | None = None
    idempotency_key: str | None = None
    depends_on: str | list[str] | None = None
    on_dependency_failure: Literal["cancel", "fail", "ignore"] | None = None
    metadata: dict[str, MetadataValue] | None = None
    parent_id: str | None = None
    limit_key: str | None = None

    def new_job(self) -> NewJob:
        """What to submit; raises InvalidJobError with the field that makes no sense."""
        options = {
            option: value
            for name, (option, convert) in _OPTIONS.items()
            if (value := convert(name, getattr(self, name))) is not None
        }
        if (self.command is None) == (self.task is None):
            raise InvalidJobError("give either a command or a task")
        if self.command is not None:
            self._refuse("a command", "args", "kwargs", "payload")
            given: Any = {"cwd": self.cwd, "env": self.env, "stdin": self.stdin}
            return command_job(self.command, **given, **options)
        assert self.task is not None
        self._refuse("a task", "cwd", "env", "stdin")
        if self.payload is msgspec.UNSET:
            return NewJob(self.task, self.args or (), self.kwargs, **options)
        if self.args is not None or self.kwargs is not None:
            raise InvalidJobError("a task gets args and kwargs, or a payload, not both")
        return NewJob(self.task, document=self.payload, **options)

    def fill_in(self, defaults: Mapping[str, Any]) -> None:
        """Fill in missing fields from elsewhere."""
        for name, value in defaults.items():
            if getattr(self, name) in (None, msgspec.UNSET):
                setattr(self, name, value)

    def _refuse(self, what: str, *names: str) -> None:
        for name in names:
            if getattr(self, name) not in (None, msgspec.UNSET):
                raise InvalidJobError(f"{what} has no {name}")


def read_document(text: str | bytes) -> JobDocument:
    """A job from JSON text; raises PayloadError or InvalidJobError with the reason.

    >>> read_document('{"command": "echo hi", "priority": "high"}').priority
    'high'
    >>> read_document('{"command": "echo hi", "colour": "red"}')  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    leasehold.errors.InvalidJobError: unknown field 'colour'; there are args, command, ...
    """
    value = decode_document(text, "the job", DOCUMENT_BYTES_MAX)
    if not isinstance(value, dict):
        raise InvalidJobError('a job is a JSON object, such as {"command": "echo hi"}')
    unknown = value.keys() - set(FIELDS)
    if unknown:
        name = min(unknown)
        meant = did_you_mean(name, FIELDS)
        raise InvalidJobError(
            f"unknown field {name!r}{meant}"
            f"{' The fields are' if meant else '; there are'} {listed(FIELDS)}"
        )
    try:
        return msgspec.convert(value, JobDocument)
    except msgspec.ValidationError as error:
        raise InvalidJobError(str(error)) from None


def _as_it_is(_name: str, value: Any) -> Any:
    return value


def _by(kind: click.ParamType[Any]) -> Any:
    def convert(name: str, value: Any) -> Any:
        if value is None:
            return None
        try:
            return kind.convert(value, None, None)
        except click.BadParameter as error:
            raise InvalidJobError(f"{name}: {error.message}") from None

    return convert


_OPTIONS: Final[dict[str, tuple[str, Any]]] = {
    "id": ("job_id", _as_it_is),
    "queue": ("queue", _as_it_is),
    "priority": ("priority", _by(PRIORITY)),
    "max_retries": ("max_retries", _as_it_is),
    "timeout": ("timeout_seconds", _by(DURATION)),
    "delay": ("delay", _by(DURATION)),
    "run_at": ("run_at", _by(MOMENT)),
    "deadline": ("deadline", _by(MOMENT)),
    "start_within": ("start_within_seconds", _by(DURATION)),
    "result_ttl": ("result_ttl_seconds", _by(DURATION)),
    "idempotency_key": ("idempotency_key", _as_it_is),
    "depends_on": ("depends_on", _as_it_is),
    "on_dependency_failure": ("on_dependency_failure", _as_it_is),
    "metadata": ("metadata", _as_it_is),
    "parent_id": ("parent_id", _as_it_is),
    "limit_key": ("limit_key", _as_it_is),
}
FIELDS: Final = tuple(sorted(JobDocument.__struct_fields__))
