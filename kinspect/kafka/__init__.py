"""Kafka on a TCP stream: framing, recognition, session states, pairing, and the exchange they yield."""
