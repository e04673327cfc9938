-- A row an exchange, of files of lines. What is not named here is not read; A body is JSON as text: ask it with ->>.
CREATE OR REPLACE MACRO kafka_lines(files) AS TABLE
SELECT * FROM read_json(files, format = 'newline_delimited', maximum_object_size = 268435456, columns = {
    event_id: 'VARCHAR', type: 'VARCHAR', timestamp: 'TIMESTAMP_NS', completed_at: 'TIMESTAMP_NS',
    host: 'VARCHAR', interface: 'VARCHAR',
    client: 'STRUCT(ip VARCHAR, port USMALLINT, id VARCHAR, role VARCHAR, principal VARCHAR,
                    software_name VARCHAR, software_version VARCHAR)',
    broker: 'STRUCT(ip VARCHAR, port USMALLINT, node_id INTEGER)',
    connection_id: 'VARCHAR', community_id: 'VARCHAR', tls: 'BOOLEAN', kind: 'VARCHAR',
    api: 'VARCHAR', api_key: 'SMALLINT', api_version: 'SMALLINT', correlation_id: 'INTEGER',
    outcome: 'VARCHAR', outcome_reason: 'VARCHAR', latency_ms: 'DOUBLE', service_ms: 'DOUBLE',
    in_flight: 'INTEGER', throttle_time_ms: 'INTEGER', wait: 'VARCHAR',
    topics: 'VARCHAR[]', partitions: 'VARCHAR[]', groups: 'VARCHAR[]', transactional_ids: 'VARCHAR[]',
    record_count: 'UBIGINT', record_bytes: 'UBIGINT',
    error_codes: 'SMALLINT[]', error_names: 'VARCHAR[]', error_count: 'INTEGER', problem_count: 'INTEGER',
    request: 'STRUCT(size UINTEGER, complete BOOLEAN, body VARCHAR)',
    response: 'STRUCT(size UINTEGER, complete BOOLEAN, body VARCHAR)'
});
