"""What a test's clients say on the wire, recorded on the way to their brokers, and what is expected of it."""
