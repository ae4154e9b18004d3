"""The database server: connections, the clock, sessions that prove life, news between processes."""
