"""Connections: recognition of Kafka, framing, sessions, and the pairing of requests with responses."""
