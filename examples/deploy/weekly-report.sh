#!/bin/sh
# The report of the last week for the review of the data model, beside that of the week before: what is new, what is worse, what is gone.
#
#   sh weekly-report.sh /var/lib/cqlens/snapshots /var/lib/cqlens/reports
#
# Leaves 2026-11-23.html for people and 2026-11-23.json, which the next one is compared with. From a timer of systemd
# (cqlens-weekly.timer), cron (weekly-report.crontab) or Kubernetes (kubernetes-weekly.yaml).
#
# Exit codes are those of `cqlens report`:
#   0  nothing that must not be
#   1  the reports are written, and there is a finding that is new or worse since the last review
#   2  no report: no snapshots in that time, or something that cannot be read or written; the reports of other weeks stay as they are
#
# Settings are the variables below; one can be set in the environment.
set -eu

snapshots=$1
reports=$2

# How far back: a time, or a span before now.
since=${CQLENS_WEEKLY_SINCE:-7d}
# From which severity on something new is worth an exit code of 1: info, low, medium, high.
fail_on_new=${CQLENS_WEEKLY_FAIL_ON_NEW:-medium}
# What the reports are called; their names have the order of time.
week=${CQLENS_WEEKLY_NAME:-$(date -u +%F)}

mkdir -p "$reports"
last=
for report in "$reports"/*.json; do
    [ ! -e "$report" ] || [ "$report" = "$reports/$week.json" ] || last=$report
done

set -- "$snapshots" --since "$since"
[ -z "$last" ] || set -- "$@" --baseline "$last" --fail-on-new "$fail_on_new"
found=0
cqlens report "$@" -o "$reports/$week.html" || found=$?
[ "$found" -le 1 ] || exit "$found"
# Last: what the next week is compared with is there only if all is.
cqlens report "$@" -o "$reports/$week.json" || found=$?
exit "$found"
