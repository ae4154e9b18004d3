"""`queue.settings`: the settings in the store, for all processes that use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from typing import Any

import msgspec

from leasehold.core.contract.store import Store
from leasehold.core.model import checked
from leasehold.core.model.settings import (
    DEFINITIONS,
    SettingDefinition,
    SettingValue,
    StoredSettings,
    parse_setting,
    setting_definition,
)
from leasehold.core.model.text import plain


class SettingSource(StrEnum):
    """Why a setting has its value."""

    DEFAULT = "default"
    STORED = "stored"
    """It was set in the store."""
    GIVEN = "given"
    """It was given to this process in code, which takes precedence over the stored value."""


class SettingInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A setting as it applies to this process."""

    name: str
    value: SettingValue
    default: SettingValue
    source: SettingSource
    stored: SettingValue = None
    """The value in the store, for processes without one of their own."""
    definition: SettingDefinition

    @property
    def text(self) -> str:
        """The value as a text that `set` understands."""
        return self.definition.show(self.value)

    @property
    def default_text(self) -> str:
        return self.definition.show(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values, in words."""
        return self.definition.allowed

    @property
    def help(self) -> str:
        return self.definition.help

    @property
    def acts(self) -> str:
        """Where and when it takes effect."""
        return self.definition.acts


class Settings:
    """Read, set and unset settings. Running workers in all processes follow.

    >>> from leasehold import TaskQueue
    >>> queue = TaskQueue("memory://", num_workers=0)
    >>> queue.settings.set("lease_seconds", "2m").value
    120.0
    >>> queue.settings.get("lease_seconds")
    120.0
    >>> queue.settings.unset("lease_seconds").value
    300.0
    """

    def __init__(self, store: Store, actor: str, given: Mapping[str, SettingValue]) -> None:
        self._store = store
        self._actor = actor
        self._given = given

    def __iter__(self) -> Iterator[SettingInfo]:
        return iter(self.list())

    def get(self, name: str) -> SettingValue:
        """The value in force in this process; raises InvalidSettingError for an unknown name."""
        return self.info(name).value

    def info(self, name: str) -> SettingInfo:
        """A setting with its value, where that comes from, its default, bounds and meaning."""
        return self._info(setting_definition(checked.text("name", name)), self._store.settings())

    def list(self) -> list[SettingInfo]:
        """All settings."""
        stored = self._store.settings()
        return [self._info(definition, stored) for definition in DEFINITIONS.values()]

    def set(self, name: str, value: SettingValue | timedelta | str) -> SettingInfo:
        """Set it for all processes. A timedelta or a string ("90s", "5m", "none") is accepted too.

        Raises InvalidSettingError and changes nothing if the name is unknown or the value is
        invalid.
        """
        if isinstance(value, timedelta):
            value = value.total_seconds()
        name = checked.text("name", name)
        meant: Any = parse_setting(name, value) if isinstance(value, str) else plain(value)
        stored = self._store.set_setting(name, meant, actor=self._actor)
        return self._info(setting_definition(name), stored)

    def unset(self, name: str) -> SettingInfo:
        """Return it to its default."""
        name = checked.text("name", name)
        stored = self._store.unset_setting(name, actor=self._actor)
        return self._info(setting_definition(name), stored)

    def _info(self, definition: SettingDefinition, stored: StoredSettings) -> SettingInfo:
        name = definition.name
        default = stored.defaults.get(name, definition.default)
        source, value = SettingSource.DEFAULT, default
        if name in stored.values:
            source, value = SettingSource.STORED, stored.values[name]
        if name in self._given:
            source, value = SettingSource.GIVEN, self._given[name]
        return SettingInfo(
            name=name,
            value=value,
            default=default,
            source=source,
            stored=stored.values.get(name),
            definition=definition,
        )
