"""Streams: the captures of a rotating folder, by Spark's Structured Streaming."""
