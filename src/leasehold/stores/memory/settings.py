"""Settings of a memory store: set, unset, and what they mean for a submit and a lease."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from leasehold.core.job import DEFAULT_LEASE_SECONDS
from leasehold.core.limits import EXTENSION_SECONDS_MAX
from leasehold.core.retention import MEMORY_RETENTION
from leasehold.core.settings import (
    DEFINITIONS,
    DraftDefaults,
    SettingValue,
    StoredSettings,
    check_setting,
    default_lease_seconds,
    draft_defaults,
    extension_seconds_max,
    retention_values,
    setting_definition,
)

if TYPE_CHECKING:
    from leasehold.stores.memory.state import State

_OWN_DEFAULTS = {
    name: value
    for name, value in retention_values(MEMORY_RETENTION).items()
    if value != DEFINITIONS[name].default
}


class Settings(msgspec.Struct):
    """What is set, and what that means."""

    generation: int = 0
    values: dict[str, SettingValue] = {}
    draft_defaults: DraftDefaults | None = None
    """What a submit has to fill in; None, the usual case, if that is nothing."""
    lease_seconds: float = DEFAULT_LEASE_SECONDS
    extension_seconds_max: float = EXTENSION_SECONDS_MAX


def settings(state: State) -> StoredSettings:
    """What is set."""
    known = state.settings
    return StoredSettings(
        values=dict(known.values), generation=known.generation, defaults=dict(_OWN_DEFAULTS)
    )


def set_setting(state: State, name: str, value: SettingValue, actor: str) -> StoredSettings:
    checked = check_setting(name, value)
    values = state.settings.values
    if name not in values or values[name] != checked:
        detail = {"setting": name, "before": values.get(name), "value": checked}
        _change(state, {**values, name: checked})
        state.note_action(actor, "set_setting", detail, 1)
    return settings(state)


def unset_setting(state: State, name: str, actor: str) -> StoredSettings:
    setting_definition(name)
    values = state.settings.values
    if name in values:
        detail = {"setting": name, "before": values[name]}
        _change(state, {key: value for key, value in values.items() if key != name})
        state.note_action(actor, "unset_setting", detail, 1)
    return settings(state)


def _change(state: State, values: dict[str, SettingValue]) -> None:
    state.settings = Settings(
        generation=state.settings.generation + 1,
        values=values,
        draft_defaults=draft_defaults(values),
        lease_seconds=default_lease_seconds(values),
        extension_seconds_max=extension_seconds_max(values),
    )
    state.retention_changed()
    # Whoever works should look at them.
    state.wake()
