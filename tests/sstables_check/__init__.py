"""What Helenus wrote, Cassandra's tools and Cassandra itself read."""
