#!/usr/bin/env bash
# bulk.sh INDEX-URL < LINES: sends lines of `--format ecs` to an index, such as http://127.0.0.1:9200/kinspect-kafka.
# Elasticsearch 6 wants a type behind it: http://127.0.0.1:9200/kinspect-kafka/_doc
# `_id` is the line's event.id: a line that is sent again replaces itself. Says how many were refused, and why.
set -euo pipefail
export INDEX_URL=$1

send='curl -sS --fail-with-body -H "Content-Type: application/x-ndjson" --data-binary @- \
    "$INDEX_URL/_bulk?filter_path=items.*.status,items.*.error.reason"'
answers=$(jq -c '{index: {_id: .event.id}}, .' | split -l 2000 --filter="$send")
jq -sr '[.[].items[].index] | "\(length) lines, \(map(select(.error)) | length) refused",
        (map(.error.reason | values) | unique[:5][])' <<< "$answers"
! grep -q '"error"' <<< "$answers"
