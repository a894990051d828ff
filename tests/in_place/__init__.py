"""A Cassandra's data folder, opened in place; see `__main__`."""
