"""Writes the faces of a queue from the definitions of its parts: `make faces`.

`definitions` reads methods out of the source, `text` writes classes that hand over to them,
`awaitable` says what the awaitable ones are like, and the tables in it what is special.
"""
