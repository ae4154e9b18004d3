"""Settings of a memory store; rules.settings_in_force decides about changes."""

from __future__ import annotations

from msgspec import UNSET

from leasehold.core.model.retention import MEMORY_RETENTION
from leasehold.core.model.settings import DEFINITIONS, StoredSettings, retention_values
from leasehold.core.rules.pins import stops_in
from leasehold.core.rules.settings_in_force import (
    SettingChange,
    SettingsInForce,
)
from leasehold.stores.memory.state import State

_OWN_DEFAULTS = {
    name: value
    for name, value in retention_values(MEMORY_RETENTION).items()
    if value != DEFINITIONS[name].default
}


def settings(state: State) -> StoredSettings:
    return state.settings.stored(_OWN_DEFAULTS, stops_in(list(state.pins.values())))


def carry_out(state: State, change: SettingChange | None, actor: str) -> StoredSettings:
    if change is not None:
        known = state.settings
        values = {**known.values, change.name: change.value}
        kept = {name: value for name, value in values.items() if value is not UNSET}
        state.settings = SettingsInForce.of(known.generation + 1, kept)
        state.note_action(actor, change.action, change.detail, 0)
        state.note_change("setting", change.name)
        state.retention_changed()
        # Workers should look at them.
        state.wake()
    return settings(state)
