"""What keys and values of records are: JSON, text, or what a schema registry's clients wrote."""
