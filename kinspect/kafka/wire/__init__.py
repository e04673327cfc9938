"""Messages as they lay on the wire, the pairs they make, and what all of a run know: ends, names, order."""
