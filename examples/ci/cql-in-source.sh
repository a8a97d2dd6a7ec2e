#!/bin/sh
# Lints statements in Java sources: one-line strings that begin with a keyword of CQL. Each is passed on with its file and
# line, where findings are shown; the semicolon keeps those of neighbouring lines apart. Arguments are those of `cqlens explain`.
#   ./cql-in-source.sh src/main/java --schema schema.cql --fail-on medium
set -eu
folder=$1
shift
grep -rnE --include='*.java' '"(SELECT|INSERT|UPDATE|DELETE) [^"]*"' "$folder" |
    sed -E 's/^([^:]*:[0-9]+:)[^"]*"([^"]*)".*$/\1\2;/' |
    cqlens explain --located "$@"
