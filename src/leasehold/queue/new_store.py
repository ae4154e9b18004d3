"""Reporting the creation of a store: a program run in the wrong folder meant another one."""

from __future__ import annotations

import logging
import os

from leasehold.core.contract.store import Store
from leasehold.urls import sqlite_path
from leasehold.worker.safelog import safe_logger

logger = safe_logger("leasehold")


def is_to_be_made(url: str) -> bool:
    """Whether a URL names a file that does not exist yet."""
    path = sqlite_path(url)
    return path is not None and not os.path.exists(path)


def tell_of_new_store(store: Store) -> bool:
    """Log that a store was created; returns whether the program already shows such lines."""
    logger.info("created a new store: %s", store)
    return logger.isEnabledFor(logging.INFO)
