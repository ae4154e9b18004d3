"""Looking at a store from outside: what needs attention, its meaning and its remedy.

findings defines one remark, alerts judges the figures of a queue, health judges the rest. All of it
is pure: the caller brings the figures and facts.
"""
