"""Developer command that rebuilds the table from Kafka's own message definitions."""
