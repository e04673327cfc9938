#!/usr/bin/env bash
# bulk.sh INDEX-URL < LINES: sends lines of `--format ecs` to an index, such as http://127.0.0.1:9200/kinspect-kafka.
# Elasticsearch 6 wants a type behind it: http://127.0.0.1:9200/kinspect-kafka/_doc
# `_id` is the line's event.id: a line that is sent again replaces itself. Says how many were refused, and why.
set -euo pipefail
export INDEX_URL=${1:?"give the URL of an index, such as http://127.0.0.1:9200/kinspect-kafka"}
INDEX_URL=${INDEX_URL%/}

# Without an id each sending would make a new document.
bulk='inputs | {index: {_id: (.event.id // error("no event.id: give kinspect --format ecs"))}}, .'
send='curl -sS --fail-with-body -H "Content-Type: application/x-ndjson" --data-binary @- \
    "$INDEX_URL/_bulk?filter_path=error,items.*.status,items.*.error.reason"'
if ! answers=$(jq -nc "$bulk" | split -l 2000 --filter="$send"); then
    echo "not all lines were sent to $INDEX_URL" >&2
    tail -n 1 <<< "$answers" >&2
    exit 1
fi
jq -sr '[.[].items[].index] | "\(length) lines, \(map(select(.error)) | length) refused",
        (map(.error.reason | values) | unique[:5][])' <<< "$answers"
! grep -q '"error"' <<< "$answers"
