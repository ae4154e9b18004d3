"""The service: a store for other machines and other languages.

`api.py` is the whole of it without any transport: who calls, what is asked, what is answered. The
files named http only translate.
"""
