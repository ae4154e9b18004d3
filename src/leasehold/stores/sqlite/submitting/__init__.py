"""Submits: admission, dependencies, and the effect of an end on dependents."""
