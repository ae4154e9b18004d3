"""The verbs that are the same on every store: a rule of the core, in one write or one look.

A store says how it writes and looks (`atomic.AtomicStore`), and hands in the classes through which
the rules see it. What is left of a verb in a store's own folder is what only that store does.
"""
