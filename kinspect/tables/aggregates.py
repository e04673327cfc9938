"""Aggregates of exchanges as tables, by Spark SQL."""

QUERIES = {
    "latency_by_minute": """
        SELECT date, date_trunc('minute', timestamp) AS minute, api, count(*) AS exchanges,
            count(latency_ms) AS answered,
            percentile(latency_ms, 0.5) AS p50_ms, percentile(latency_ms, 0.95) AS p95_ms,
            percentile(latency_ms, 0.99) AS p99_ms, max(latency_ms) AS max_ms
        FROM exchanges GROUP BY date, minute, api
    """,
    "topic_clients": """
        SELECT date, topic, client.id AS client_id, client.principal AS principal, client.role AS role,
            client.software_name AS software_name, client.software_version AS software_version, api,
            count(*) AS exchanges, count(DISTINCT client.ip) AS hosts,
            min(timestamp) AS first_seen, max(timestamp) AS last_seen
        FROM exchanges LATERAL VIEW explode(topics) AS topic
        GROUP BY ALL
    """,
    "client_versions": """
        SELECT date, client.id AS client_id, client.software_name AS software_name,
            client.software_version AS software_version, api, api_key, api_version, count(*) AS exchanges,
            count(DISTINCT client.ip) AS hosts, min(timestamp) AS first_seen, max(timestamp) AS last_seen
        FROM exchanges WHERE kind = 'kafka' GROUP BY ALL
    """,
    "errors": """
        SELECT date, api, error.error_names AS error_name, error.error_codes AS error_code, client.id AS client_id,
            count(*) AS exchanges
        FROM exchanges LATERAL VIEW explode(arrays_zip(error_codes, error_names)) AS error
        GROUP BY ALL
    """,
}
"""Query of each aggregate over the table `exchanges`; both have the column `date`."""
