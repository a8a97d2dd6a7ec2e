#!/bin/sh
# Audits what passes between clients and one Cassandra pod, for a while, from copies of its packets. Neither the pod nor its definition
# changes and nothing restarts: an ephemeral container looks on from within the pod's network.
#
#   sh kubernetes-ephemeral.sh [NAMESPACE/]POD [SECONDS] [ARGUMENTS OF cqlens sniff …]
#   sh kubernetes-ephemeral.sh db/cassandra-0 600 --report cassandra-0.html
#
# Takes the right to make ephemeral containers (`pods/ephemeralcontainers`) and to run commands in them (`pods/exec`), a namespace whose
# pod security lets a container have NET_RAW, and cqlens on this machine.
set -eu

pod=${1:?which pod? [NAMESPACE/]POD}
seconds=${2:-600}
shift
[ $# -eq 0 ] || shift
case $pod in
    */*) namespace=${pod%%/*} pod=${pod#*/} ;;
    *) namespace=default ;;
esac
# Any image that has tcpdump and timeout.
image=${CQLENS_CAPTURE_IMAGE:-nicolaka/netshoot}
# A pod keeps the names of its ephemeral containers for good.
container=cqlens-$(date +%s)

# It ends by itself, whatever happens to this script.
kubectl --namespace "$namespace" debug "$pod" --image "$image" --container "$container" --profile netadmin --attach=false \
    -- sleep "$((seconds + 120))"
until kubectl --namespace "$namespace" exec "$pod" --container "$container" -- true 2>/dev/null; do sleep 1; done

# `exec` hands on every byte from the first; `attach` does not. No terminal: it would change bytes.
kubectl --namespace "$namespace" exec "$pod" --container "$container" -- \
    timeout "$seconds" tcpdump -i any -n -s 0 -B 65536 -U -w - 'tcp port 9042' |
    cqlens sniff - --follow "$@"
