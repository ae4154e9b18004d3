"""The settings of a store in force at one moment, and the change of one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from msgspec import UNSET, UnsetType

from leasehold.core.model.settings import (
    DraftDefaults,
    SettingValue,
    SettingValues,
    StoredSettings,
    attempt_records_max,
    check_setting,
    default_lease_seconds,
    draft_defaults,
    extension_seconds_max,
    setting_definition,
)


class SettingsInForce(NamedTuple):
    """The settings, and their meaning for submits, leases and attempts."""

    generation: int
    values: SettingValues
    draft_defaults: DraftDefaults | None
    """The defaults that a submit has to fill in; None (the usual case) if there are none."""
    lease_seconds: float
    extension_seconds_max: float
    attempt_records_max: int

    @classmethod
    def of(cls, generation: int, values: SettingValues) -> SettingsInForce:
        """What these values mean."""
        return cls(
            generation,
            values,
            draft_defaults(values),
            default_lease_seconds(values),
            extension_seconds_max(values),
            attempt_records_max(values),
        )

    def stored(self, defaults: SettingValues, stops: Mapping[str, str]) -> StoredSettings:
        """The settings as callers see them; `defaults` are this store's own defaults."""
        return StoredSettings(
            values=dict(self.values),
            generation=self.generation,
            defaults=dict(defaults),
            stops=dict(stops),
        )


class SettingShelf(Protocol):
    """Where a store keeps its settings, inside one write."""

    def in_force(self) -> SettingsInForce: ...

    def change(self, name: str, value: SettingValue | UnsetType) -> None:
        """Write one, or forget it (UNSET); raise the generation, and wake the workers, who should
        look at them.
        """

    def stored(self) -> StoredSettings:
        """The settings as callers see them, by now."""

    def audit(self, actor: str, action: str, count: int, detail: dict[str, Any]) -> None: ...


class SettingChange(NamedTuple):
    """The record of a change."""

    name: str
    value: SettingValue | UnsetType
    """UNSET restores the default."""
    action: str
    detail: dict[str, Any]


def setting_to_set(values: SettingValues, name: str, value: SettingValue) -> SettingChange | None:
    """The change that sets a setting; None if it already has that value."""
    checked = check_setting(name, value)
    if name in values and values[name] == checked:
        return None
    detail = {"setting": name, "before": values.get(name), "value": checked}
    return SettingChange(name, checked, "set_setting", detail)


def setting_to_unset(values: SettingValues, name: str) -> SettingChange | None:
    """The change that unsets a setting; None if it is not set."""
    setting_definition(name)
    if name not in values:
        return None
    detail = {"setting": name, "before": values[name]}
    return SettingChange(name, UNSET, "unset_setting", detail)


def set_setting(shelf: SettingShelf, name: str, value: SettingValue, actor: str) -> StoredSettings:
    """Set one; the same again changes nothing."""
    return _change(shelf, setting_to_set(shelf.in_force().values, name, value), actor)


def unset_setting(shelf: SettingShelf, name: str, actor: str) -> StoredSettings:
    """Let the default of one count again."""
    return _change(shelf, setting_to_unset(shelf.in_force().values, name), actor)


def _change(shelf: SettingShelf, change: SettingChange | None, actor: str) -> StoredSettings:
    if change is not None:
        shelf.change(change.name, change.value)
        shelf.audit(actor, change.action, 0, change.detail)
    return shelf.stored()
