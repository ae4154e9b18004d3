"""The command line: `leasehold`, also installed as `queuectl`.

Read in this order: commands (the table of all of them), root (how one is found and loaded), session
(the state of a command), exits (how it ends), output and safe (the way to the terminal), options
and filters (the parsing). Then one file per command, or group of commands.
"""
