"""Verbs of the contract that are the same for every store on tables, by theme.

A class here needs nothing of the others. What a store says with classes and modules of its own, it
hands in as the attributes that the class names.
"""
