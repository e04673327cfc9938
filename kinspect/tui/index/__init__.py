"""What the explorer knows of its captures: a compact row an exchange, and how to get at the bytes again.

Nothing here knows of a terminal, or of Textual.
"""
