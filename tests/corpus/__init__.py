"""sstables that Cassandra wrote, opened in place: what Helenus reads in them is what Cassandra reads."""
