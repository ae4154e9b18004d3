"""Setting and unsetting. Guard of a change: it is compared inside the write."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.settings import SettingValue, StoredSettings
from leasehold.stores.sqlite.leasing.people import audit
from leasehold.stores.sqlite.writing.step import Step

KEEP: Final = "INSERT OR REPLACE INTO setting VALUES (?, ?)"
FORGET: Final = "DELETE FROM setting WHERE name = ?"


def keep(step: Step, name: str, value: SettingValue, actor: str) -> StoredSettings:
    """Set one; answers all of them."""
    values = step.settings.values
    if name in values and values[name] == value:
        return step.settings.stored()
    detail = {"setting": name, "before": values.get(name), "value": value}
    step.execute(KEEP, (name, msgspec.json.encode(value).decode()))
    audit(step, actor, "set_setting", 1, detail)
    return _changed(step)


def forget(step: Step, name: str, actor: str) -> StoredSettings:
    """Unset one; answers those that are left."""
    values = step.settings.values
    if name not in values:
        return step.settings.stored()
    detail = {"setting": name, "before": values[name]}
    step.execute(FORGET, (name,))
    audit(step, actor, "unset_setting", 1, detail)
    return _changed(step)


def _changed(step: Step) -> StoredSettings:
    step.settings_changed()
    # Whoever works should look at them.
    step.hints.ready = True
    return step.settings.stored()
