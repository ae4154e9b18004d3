"""The part of the store contract about settings, as numbered clauses.

What settings mean for the other methods:

- STT-4  A job that names no max_retries, retry or timeout_seconds, nor does its queue, gets those
         that are set, in the write that submits it, whichever process does. The retry is
         exponential, by those `backoff_...` that are set. Jobs that are there already stay.
- STT-5  A lease for which neither the job nor the request says how long it is has the
         `lease_seconds` that are set.
- STT-6  Listeners hear `on_ready` after a change, and every exchange answers with the generation:
         so running workers follow.
- STT-9  A lease lasts at most for the `lease_extension_max` that is set, whoever asked for more
         when it was granted (LEA-2) or renews it (REN-1).
- STT-7  A clean-up without a policy keeps to the retention and the interval that are set; so does
         what a store forgets by itself. A store that was made with a policy keeps to that one in
         both cases, whatever is set.
"""

from __future__ import annotations

from typing import Protocol

from leasehold.core.model.settings import SettingValue, StoredSettings


class SettingsStore(Protocol):
    """What a store does for settings."""

    def settings(self) -> StoredSettings:
        """What is set, and the generation.

        - STT-1  Only what was set and not unset is there. The generation grows with each change,
                 and with each worker that is asked to stop (PIN-4).
        """

    def set_setting(self, name: str, value: SettingValue, *, actor: str) -> StoredSettings:
        """Set one; `core.model.settings.DEFINITIONS` says which there are, and what they may be.

        - STT-2  An unknown name or a bad value raises InvalidSettingError and changes nothing.
                 Others stay as they are, under races too. What is set already is no change.
        - STT-8  Every change is an audit record: the setting, its value before and after.
        """

    def unset_setting(self, name: str, *, actor: str) -> StoredSettings:
        """Let the default count again.

        - STT-3  What is not set is no change; an unknown name raises InvalidSettingError.
        """
