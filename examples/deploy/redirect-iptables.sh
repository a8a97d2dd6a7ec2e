#!/bin/sh
# What redirect.nft does, for machines with iptables: leads what goes to port 9042 through cqlens, but for what cqlens itself sends.
#
#   sh redirect-iptables.sh add      # or: delete
#
# cqlens runs as the user `cqlens` (another one: CQLENS_USER), with --transparent --listen '[::]:9142'.
set -eu

user=${CQLENS_USER:-cqlens}

case ${1:-} in
    add) action=--append ;;
    delete) action=--delete ;;
    *)
        echo "usage: $0 add|delete" >&2
        exit 2
        ;;
esac

for iptables in iptables ip6tables; do
    # What applications on this machine send.
    "$iptables" --table nat "$action" OUTPUT --protocol tcp --dport 9042 --match owner ! --uid-owner "$user" \
        --jump REDIRECT --to-ports 9142
    # What comes to a node on this machine from others.
    "$iptables" --table nat "$action" PREROUTING --protocol tcp --dport 9042 --jump REDIRECT --to-ports 9142
done
