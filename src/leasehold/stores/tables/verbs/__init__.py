"""Verbs of the contract that are the same for every store on tables, by theme.

A class here needs nothing of the others. A store hands in its own classes and functions as the
attributes that the class names.
"""
