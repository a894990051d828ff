"""kill -9 under load, again and again: what was acknowledged is there, what was never sent is not."""
