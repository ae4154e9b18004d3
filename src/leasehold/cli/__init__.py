"""The command line: `leasehold`, also installed as `queuectl`.

Read in this order: commands (the table of all of them), root (how one is found and loaded), session
(what a command works with), exits (how it ends), output and safe (what reaches the terminal),
options and filters (what is understood). Then one file per command, or group of commands.
"""
