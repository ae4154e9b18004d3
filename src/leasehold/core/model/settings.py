"""Settings kept in the store: one definition per key, and the defaults that each supplies.

The most specific value wins: the job's (or its task's), then its queue's, then the value that the
process was given in code, then the stored setting, then the built-in default.

>>> parse_setting("lease_seconds", "5m"), parse_setting("timeout_seconds", "none")
(300.0, None)
>>> parse_setting("max_retrys", "5")
Traceback (most recent call last):
leasehold.errors.InvalidSettingError: there is no setting 'max_retrys': did you mean 'max_retries'?
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from leasehold.core.model.durations import plain_seconds
from leasehold.core.model.job import DEFAULT_LEASE_SECONDS, DEFAULT_MAX_RETRIES, Draft
from leasehold.core.model.limits import (
    ATTEMPT_RECORDS_MAX,
    EXTENSION_SECONDS_MAX,
    LEASE_SECONDS_MIN,
    SECONDS_MAX,
)
from leasehold.core.model.phrases import did_you_mean, listed
from leasehold.core.model.retention import DAY_SECONDS, RetentionPolicy
from leasehold.core.model.retry import DEFAULT_POLICY, DELAY_SECONDS_MAX, Exponential, RetryPolicy
from leasehold.errors import InvalidSettingError

SettingValue = int | float | None
SettingValues = Mapping[str, SettingValue]
"""Values by name of the settings that are set."""

_UNITS: Final = {"m": 60, "h": 3600, "d": 24 * 3600}
_NUMBER: Final = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")


class SettingKind(StrEnum):
    """The kind of a setting's value."""

    SECONDS = "seconds"
    COUNT = "count"
    """An integer."""
    NUMBER = "number"


class SettingDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """One key: its valid values, and its effect."""

    name: str
    kind: SettingKind
    default: SettingValue
    """The value while none is set. A store may have another default of its own."""
    least: float
    most: float
    none_means: str | None = None
    """What None stands for; None where it is not allowed."""
    acts: str
    """Where and when it takes effect."""
    help: str

    def check(self, value: object) -> SettingValue:
        """The value as it is stored; raises InvalidSettingError for an invalid one."""
        if value is None:
            if self.none_means is None:
                raise self._refused(value)
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._refused(value)
        # The comparison also refuses NaN, which is neither above nor below anything.
        if not self.least <= value <= self.most:
            raise self._refused(value)
        if self.kind is not SettingKind.COUNT:
            return float(value)
        if value != int(value):
            raise self._refused(value)
        return int(value)

    def parse(self, text: str) -> SettingValue:
        """The value that a text stands for: a number, a duration such as 90s or 5m, or none."""
        said = "".join(text.split()).lower()
        if said == "none":
            if self.none_means is None:
                raise self._refused(text)
            return None
        value: float | None = None
        if self.kind is SettingKind.SECONDS:
            value = plain_seconds(said)
            said = said.removesuffix("s")
        if value is None and _NUMBER.fullmatch(said):
            value = float(said)
        if value is None:
            raise self._refused(text)
        try:
            return self.check(value)
        except InvalidSettingError:
            # Quote the text as the person wrote it, not its converted form.
            raise self._refused(text) from None

    def show(self, value: SettingValue) -> str:
        """A value as a text that `parse` understands."""
        if value is None:
            return "none"
        if self.kind is not SettingKind.SECONDS:
            return f"{value:g}" if float(f"{value:g}") == value else repr(value)
        for unit in ("d", "h", "m"):
            if value and value % _UNITS[unit] == 0:
                return f"{int(value / _UNITS[unit])}{unit}"
        return f"{int(value)}s" if value == int(value) else f"{value!r}s"

    @property
    def allowed(self) -> str:
        """The valid values, in words."""
        if self.kind is SettingKind.SECONDS:
            least, most = self.show(self.least), self.show(self.most)
            words = f"a duration from {least} to {most}, such as 90, 90s, 5m, 2h30m or 1d"
        else:
            number = "a whole number" if self.kind is SettingKind.COUNT else "a number"
            words = f"{number} from {self.least:,g} to {self.most:,.0f}"
        return words if self.none_means is None else f"{words}, or none ({self.none_means})"

    def _refused(self, value: object) -> InvalidSettingError:
        return InvalidSettingError(f"{self.name} cannot be {value!r}: it must be {self.allowed}")


def _seconds(
    name: str,
    default: float | None,
    bounds: tuple[float, float],
    acts: str,
    text: str,
    none: str | None = None,
) -> SettingDefinition:
    return SettingDefinition(
        name=name, kind=SettingKind.SECONDS, default=default, least=bounds[0], most=bounds[1],
        none_means=none, acts=acts, help=text,
    )  # fmt: skip


def _number(
    name: str, kind: SettingKind, default: float, bounds: tuple[float, float], acts: str, text: str
) -> SettingDefinition:
    return SettingDefinition(
        name=name, kind=kind, default=default, least=bounds[0], most=bounds[1], acts=acts, help=text
    )


_SUBMIT: Final = "at submit, if neither the job nor its queue has one"
_SUBMIT_OF_JOBS: Final = "at submit, if the job has none"
_LEASE: Final = "at lease, if neither the job, its queue nor the worker has one"
HEARTBEAT_SECONDS: Final = 30.0
_WORKER: Final = "in every worker without its own value"
_CLEAN_UP: Final = "in clean-ups without a policy of their own, for queues without one"
_CLEAN_UP_OF_STORE: Final = "in clean-ups without a policy of their own"
_RETENTION: Final = (0.0, SECONDS_MAX)
_FOR_EVER: Final = "for ever"
_KEPT: Final = RetentionPolicy()

DEFINITIONS: Final[Mapping[str, SettingDefinition]] = {
    each.name: each
    for each in (
        _number("max_retries", SettingKind.COUNT, DEFAULT_MAX_RETRIES, (0, 1_000_000), _SUBMIT,
                "How many times a job is retried after its first attempt; 0 for never."),
        _seconds("backoff_base", DEFAULT_POLICY.initial_seconds, (0, DELAY_SECONDS_MAX), _SUBMIT,
                 "The delay before the first retry, in seconds (not the base of a power)."),
        _number("backoff_factor", SettingKind.NUMBER, DEFAULT_POLICY.factor, (1, 100), _SUBMIT,
                "The factor from each delay to the next."),
        _seconds("backoff_max", DEFAULT_POLICY.cap_seconds, (0, DELAY_SECONDS_MAX), _SUBMIT,
                 "The longest delay before a retry."),
        _number("backoff_jitter", SettingKind.NUMBER, DEFAULT_POLICY.jitter, (0, 1), _SUBMIT,
                "The largest random share that is added to a delay."),
        _seconds("timeout_seconds", None, (0.001, SECONDS_MAX), _SUBMIT_OF_JOBS,
                 "How long an attempt may run.", "as long as it takes"),
        _seconds("lease_seconds", DEFAULT_LEASE_SECONDS,
                 (LEASE_SECONDS_MIN, EXTENSION_SECONDS_MAX), _LEASE,
                 "How long a worker holds a job without a heartbeat."),
        _seconds("lease_extension_max", EXTENSION_SECONDS_MAX, (1, SECONDS_MAX),
                 "when a lease is granted or renewed",
                 "How long one lease may last, renewals included."),
        _seconds("poll_interval", 5.0, (0.01, 3600), _WORKER,
                 "How often an idle worker polls for jobs if no notification comes."),
        _seconds("heartbeat_interval", HEARTBEAT_SECONDS, (0.1, 3600), _WORKER,
                 "How often a worker renews its leases; never less than three times per lease."),
        _number("heartbeat_failure_threshold", SettingKind.COUNT, 3, (1, 1000), _WORKER,
                "After how many failed heartbeats in a row a worker gives up its leases."),
        _seconds("sweep_interval", 60.0, (0.1, DAY_SECONDS), _WORKER,
                 "How often a worker looks for jobs of lost workers."),
        _number("attempt_records_max", SettingKind.COUNT, ATTEMPT_RECORDS_MAX, (1, 1000),
                "when an attempt begins or ends",
                "How many attempt records are kept per job, the checkpoints of sweeps included."),
        _seconds("prune_interval", _KEPT.interval_seconds, (1, SECONDS_MAX), _CLEAN_UP_OF_STORE,
                 "How long after the start of one clean-up the next one may start.", "never"),
        _seconds("retention_completed_seconds", _KEPT.completed_seconds, _RETENTION, _CLEAN_UP,
                 "How long completed jobs are kept.", _FOR_EVER),
        _seconds("retention_cancelled_seconds", _KEPT.cancelled_seconds, _RETENTION, _CLEAN_UP,
                 "How long cancelled jobs are kept.", _FOR_EVER),
        _seconds("retention_dead_seconds", _KEPT.dead_seconds, _RETENTION, _CLEAN_UP,
                 "How long dead letters are kept.", "until a person decides"),
        _seconds("retention_audit_seconds", _KEPT.audit_seconds, _RETENTION, _CLEAN_UP_OF_STORE,
                 "How long audit records are kept before they go to the archive.", _FOR_EVER),
        _seconds("retention_audit_archive_seconds", _KEPT.audit_archive_seconds, _RETENTION,
                 _CLEAN_UP_OF_STORE,
                 "How long audit records are kept in the archive; 0 keeps none.", _FOR_EVER),
    )
}  # fmt: skip
"""Every setting there is, by name."""


def setting_definition(name: str) -> SettingDefinition:
    """A key's definition; raises InvalidSettingError, with a similar name, for an unknown key."""
    found = DEFINITIONS.get(name)
    if found is not None:
        return found
    advice = did_you_mean(str(name), DEFINITIONS) or f": there are {listed(DEFINITIONS)}"
    raise InvalidSettingError(f"there is no setting {name!r}{advice}")


def check_setting(name: str, value: object) -> SettingValue:
    """The value as it is stored; raises InvalidSettingError for an invalid value or name."""
    return setting_definition(name).check(value)


def parse_setting(name: str, text: str) -> SettingValue:
    """The value that a text stands for; raises as `check_setting` does."""
    return setting_definition(name).parse(text)


class StoredSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The stored settings at one moment."""

    values: dict[str, SettingValue] = {}
    """Only the settings that are set."""
    generation: int = 0
    """Grows with every change, and only then, so a reader that knows it need not read again."""
    defaults: dict[str, SettingValue] = {}
    """Defaults of this store that differ from the built-in ones."""
    stops: dict[str, str] = {}
    """Workers asked to stop, by id: the text of the pin, which tells registrations of one id apart.
    """


# -- defaults that settings fill in ------------------------------------------------------------


class DraftDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Values for jobs that have none of their own or of their queue."""

    max_retries: int | None = None
    retry: RetryPolicy | None = None
    timeout_seconds: float | None = None

    def applied_to(self, draft: Draft) -> Draft:
        """The draft with these defaults filled in."""
        defaults = {
            name: value
            for name in self.__struct_fields__
            if (value := getattr(self, name)) is not None and getattr(draft, name) is None
        }
        return msgspec.structs.replace(draft, **defaults) if defaults else draft


_BACKOFF_FIELDS: Final = {
    "backoff_base": "initial_seconds",
    "backoff_factor": "factor",
    "backoff_max": "cap_seconds",
    "backoff_jitter": "jitter",
}
_RETENTION_FIELDS: Final = {
    "prune_interval": "interval_seconds",
    "retention_completed_seconds": "completed_seconds",
    "retention_cancelled_seconds": "cancelled_seconds",
    "retention_dead_seconds": "dead_seconds",
    "retention_audit_seconds": "audit_seconds",
    "retention_audit_archive_seconds": "audit_archive_seconds",
}
RETENTION_NAMES: Final = frozenset(_RETENTION_FIELDS)


def draft_defaults(values: SettingValues) -> DraftDefaults | None:
    """The defaults that a submit has to fill in; None (the usual case) if there are none."""
    backoff = _renamed(values, _BACKOFF_FIELDS)
    defaults = DraftDefaults(
        max_retries=_count(values.get("max_retries")),
        retry=Exponential(**backoff) if backoff else None,
        timeout_seconds=values.get("timeout_seconds"),
    )
    return None if defaults == DraftDefaults() else defaults


def default_lease_seconds(values: SettingValues) -> float:
    """The length of a lease for which neither the job nor the worker gives one."""
    return values.get("lease_seconds") or DEFAULT_LEASE_SECONDS


def beat_seconds(values: SettingValues) -> float:
    """How often a worker sends a heartbeat by default."""
    return values.get("heartbeat_interval") or HEARTBEAT_SECONDS


def extension_seconds_max(values: SettingValues) -> float:
    """How long one lease may last, renewals included."""
    return values.get("lease_extension_max") or EXTENSION_SECONDS_MAX


def attempt_records_max(values: SettingValues) -> int:
    """How many attempt records are kept per job."""
    return int(values.get("attempt_records_max") or ATTEMPT_RECORDS_MAX)


def retention_by(values: SettingValues, default: RetentionPolicy) -> RetentionPolicy:
    """A store's policy with the settings applied."""
    changes = _renamed(values, _RETENTION_FIELDS)
    return msgspec.structs.replace(default, **changes) if changes else default


def retention_values(policy: RetentionPolicy) -> dict[str, SettingValue]:
    """A policy as values of settings."""
    return {name: getattr(policy, field) for name, field in _RETENTION_FIELDS.items()}


def _renamed(values: SettingValues, fields: Mapping[str, str]) -> dict[str, Any]:
    return {field: values[name] for name, field in fields.items() if name in values}


def _count(value: SettingValue) -> int | None:
    return None if value is None else int(value)
