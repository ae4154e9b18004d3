"""The database server: connections, the clock, sessions that prove life, and news between
processes.
"""
