"""The store's verbs about settings. Guard of a change: it is compared inside the write."""

from __future__ import annotations

from typing import Final

import msgspec

from leasehold.core.settings import (
    SettingValue,
    StoredSettings,
    check_setting,
    setting_definition,
)
from leasehold.stores.sqlite.leasing.people import audit
from leasehold.stores.sqlite.rules.settings import Settings, load
from leasehold.stores.sqlite.writing.foundation import Foundation
from leasehold.stores.sqlite.writing.step import Step

KEEP: Final = "INSERT OR REPLACE INTO setting VALUES (?, ?)"
FORGET: Final = "DELETE FROM setting WHERE name = ?"


class KeepsSettings(Foundation):
    """Look at settings, set and unset them."""

    def settings(self) -> StoredSettings:
        with self._read() as db:
            return _answer(load(db))

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        checked = check_setting(name, value)

        def operation(step: Step) -> StoredSettings:
            values = step.settings.values
            if name in values and values[name] == checked:
                return _answer(step.settings)
            detail = {"setting": name, "before": values.get(name), "value": checked}
            step.execute(KEEP, (name, msgspec.json.encode(checked).decode()))
            audit(step, actor, "set_setting", 1, detail)
            return _changed(step)

        return self._write(operation)

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        setting_definition(name)

        def operation(step: Step) -> StoredSettings:
            values = step.settings.values
            if name not in values:
                return _answer(step.settings)
            detail = {"setting": name, "before": values[name]}
            step.execute(FORGET, (name,))
            audit(step, actor, "unset_setting", 1, detail)
            return _changed(step)

        return self._write(operation)


def _changed(step: Step) -> StoredSettings:
    step.settings_changed()
    # Whoever works should look at them.
    step.hints.ready = True
    return _answer(step.settings)


def _answer(known: Settings) -> StoredSettings:
    return StoredSettings(values=dict(known.values), generation=known.generation)
