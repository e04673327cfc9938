"""The stream: captures of a rotating folder, by Structured Streaming."""
