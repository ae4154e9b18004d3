"""Setting and unsetting. Guard of a change: it is compared inside the write."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import UNSET

from leasehold.core.model.settings import SettingValue, StoredSettings
from leasehold.core.rules.settings_in_force import SettingChange, setting_to_set, setting_to_unset
from leasehold.stores.tables.pins import stops
from leasehold.stores.tables.step import TableStep

KEEP: Final = """
    INSERT INTO setting VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
FORGET: Final = "DELETE FROM setting WHERE name = $1"


def keep(step: TableStep, name: str, value: SettingValue, actor: str) -> StoredSettings:
    """Set one; answers all of them."""
    return _carry_out(step, setting_to_set(step.settings.values, name, value), actor)


def forget(step: TableStep, name: str, actor: str) -> StoredSettings:
    """Unset one; answers the remaining settings."""
    return _carry_out(step, setting_to_unset(step.settings.values, name), actor)


def _carry_out(step: TableStep, change: SettingChange | None, actor: str) -> StoredSettings:
    if change is not None:
        if change.value is UNSET:
            step.execute(FORGET, (change.name,))
        else:
            step.execute(KEEP, (change.name, msgspec.json.encode(change.value).decode()))
        step.audit(actor, change.action, 0, change.detail)
        step.settings_changed()
        # Workers should look at them.
        step.hints.ready = True
    return step.settings.stored({}, stops(step.db))
