"""Submits: who is let in, what depends on what, and what an end does to those behind."""
