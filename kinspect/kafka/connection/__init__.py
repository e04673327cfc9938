"""A connection: recognised, framed, its session followed, requests paired with responses."""
