"""The JSON form of exchanges, their bodies and records."""
