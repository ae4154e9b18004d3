"""Private names, in a store where names are unique for everybody.

A token limited to some queues must neither learn that a name is taken elsewhere nor take it from
others. So the names it gives begin with their owner: the ids of jobs and the names of schedules
with their queue, the names of workers with the token.
"""

from __future__ import annotations


def own_prefix(owner: str) -> str:
    """The prefix of this owner's names, and of no other's.

    >>> own_prefix("mail")
    'mail:'
    >>> own_prefix("mail:fast")
    'mail%3Afast:'
    """
    return owner.replace("%", "%25").replace(":", "%3A") + ":"
