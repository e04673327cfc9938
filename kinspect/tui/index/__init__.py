"""The explorer's index of its captures: a compact row an exchange, and the way back to its bytes.

Nothing here depends on a terminal, or on Textual.
"""
