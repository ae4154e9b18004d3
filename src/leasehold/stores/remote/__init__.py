"""A store behind a service: `http://` and `https://` URLs."""

from leasehold.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
