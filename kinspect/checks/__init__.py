"""Rules on what clients say: exchanges in, which rules passed, failed or could not be decided out."""
