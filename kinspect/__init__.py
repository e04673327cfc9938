"""A wire-traffic inspector for Apache Kafka."""
