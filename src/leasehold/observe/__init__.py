"""Observing a store from outside: what needs attention, what it means and how to fix it.

findings defines one remark, alerts judges the figures of a queue, health judges the rest. All of it
is pure: the caller brings the figures and facts.
"""
