"""The settings of a store in force at one moment, and the record of a change to one of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

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
    """The defaults that a submit has to fill in; None, the usual case, if there are none."""
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
        """The settings as callers see them; `defaults` are those that only this store has."""
        return StoredSettings(
            values=dict(self.values),
            generation=self.generation,
            defaults=dict(defaults),
            stops=dict(stops),
        )


class SettingChange(NamedTuple):
    """The record of a change, which a store writes in a write of its own generation, and audits."""

    name: str
    value: SettingValue | UnsetType
    """UNSET lets the default count again."""
    action: str
    detail: dict[str, Any]


def setting_to_set(values: SettingValues, name: str, value: SettingValue) -> SettingChange | None:
    """The change that sets one; None if it is set already."""
    checked = check_setting(name, value)
    if name in values and values[name] == checked:
        return None
    detail = {"setting": name, "before": values.get(name), "value": checked}
    return SettingChange(name, checked, "set_setting", detail)


def setting_to_unset(values: SettingValues, name: str) -> SettingChange | None:
    """The change that unsets one; None if it is not set."""
    setting_definition(name)
    if name not in values:
        return None
    detail = {"setting": name, "before": values[name]}
    return SettingChange(name, UNSET, "unset_setting", detail)
