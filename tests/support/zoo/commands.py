"""Hostile commands: shell scripts, each with how its job ends and why it is here."""

from __future__ import annotations

from support.zoo.members import Ends

COMMANDS: dict[str, tuple[str, Ends]] = {
    # name: (script, how it ends)
    "fails": ("exit 3", "fails"),
    "is_killed": ("kill -9 $$", "fails"),
    "crashes": ("kill -SEGV $$", "fails"),
    "kills_whoever_started_it": ("kill -9 $PPID; sleep 5", "fails"),
    "terminates_whoever_started_it": ("kill -TERM $PPID; exit 0", "completes"),
    "kills_its_group": ("kill -9 0", "fails"),
    "is_not_there": ("exec /no/such/program", "fails"),
    "prints_what_is_no_text": (r"printf '\377\376\000\033[31m'; exit 1", "fails"),
    "prints_what_is_no_text_and_is_well": (r"printf '\377\376\000\033[31m' >&2", "completes"),
    "prints_a_lot": ("head -c 5000000 /dev/zero", "completes"),
    "prints_lines_without_end": ("yes | head -c 3000000; exit 1", "fails"),
    "closes_its_streams": ("exec 0<&- 1>&- 2>&-", "completes"),
    "closes_all_descriptors": (
        "exec /usr/bin/env python3 -c 'import os; os.closerange(0, 4096)'",
        "completes",
    ),
    "leaves_a_child": ("sleep 100 & exit 0", "completes"),
    "leaves_a_child_in_its_own_session": ("setsid sleep 1 & exit 0", "completes"),
    "ignores_signals": ("trap '' TERM INT HUP; exit 0", "completes"),
    "goes_elsewhere": ("cd / && umask 777 && exit 0", "completes"),
    "has_many_children": ("for i in 1 2 3 4 5 6 7 8; do sleep 50 & done; exit 1", "fails"),
    "waits_for_input": ("cat; exit 0", "completes"),
    "writes_to_every_descriptor": (
        "for fd in /proc/self/fd/*; do echo nonsense > $fd; done; exit 0",
        "either",
    ),
}
