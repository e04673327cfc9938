"""The lines of a run: exchanges, connections and gaps, and what their connections share."""
