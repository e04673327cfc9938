"""The explorer: captures as a list of exchanges, with the fields and the bytes of each, in a terminal."""
