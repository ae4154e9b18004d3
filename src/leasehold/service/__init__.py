"""The service: a store for other machines and other languages.

`api.py` is the whole of it without any transport: the caller, the request, the answer. The files
named http only translate.
"""
