"""A store behind a service: `http(s)://` and `grpc(s)://` URLs."""

from leasehold.stores.remote.store import RemoteStore

__all__ = ["RemoteStore"]
