INSERT INTO kafka_exchanges
SETTINGS input_format_skip_unknown_fields = 1, input_format_null_as_default = 1, date_time_input_format = 'best_effort'
FORMAT JSONEachRow
