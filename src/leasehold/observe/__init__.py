"""Looking at a store from outside: what needs attention, what it means and what to do.

findings says what one remark is, alerts judges the figures of a queue, health judges the rest. All
of it is pure: whoever asks brings the figures and facts.
"""
