"""The part of the store contract about settings, as numbered clauses.

What settings mean for the other methods:

- STT-4  A job without max_retries, retry or timeout_seconds of its own or of its queue gets those
         that are set, in the write that submits it, by any process. The retry is exponential, by
         the `backoff_...` settings. Existing jobs stay.
- STT-5  A lease whose length is given neither by the job nor by the request has the `lease_seconds`
         that are set.
- STT-6  Listeners hear `on_ready` after a change, and every exchange returns the generation; this
         is how running workers notice it.
- STT-9  A lease lasts at most for the `lease_extension_max` that is set, even if more was asked for
         when it was granted (LEA-2) or is renewed (REN-1).
- STT-7  A clean-up without a policy follows the retention and the interval that are set, and so
         does the store's own forgetting. A store made with a policy follows that policy in both
         cases.
"""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.settings import SettingValue, StoredSettings


class SettingsStore(Protocol):
    """The operations of a store on its settings."""

    def settings(self) -> StoredSettings:
        """The stored settings, and the generation.

        - STT-1  Only settings that were set and not unset are returned. The generation grows with
                 each change, and with each worker that is asked to stop (PIN-4).
        """

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        """Set a setting; `core.model.settings.DEFINITIONS` lists the names and their valid values.

        - STT-2  An unknown name or a bad value raises InvalidSettingError and changes nothing.
                 Other settings stay, under races too. The same value again is no change.
        - STT-8  Every change is an audit record: the setting, its value before and after.
        """

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        """Return a setting to its default.

        - STT-3  Unsetting an unset name is no change; an unknown name raises InvalidSettingError.
        """
