#!/bin/sh
# Keeps the last packets between clients and the Cassandra node on this machine in a ring of files, for `cqlens sniff`. Nothing is in
# the path of the traffic, and the disk never fills.
#
#   sh capture-ring.sh                     # until it is stopped: 20 files of 200 MB
#   cqlens sniff /var/lib/cqlens/ring/*    # at any time, also while it runs; files are put in the order of time
#
# Settings are the variables below; one can be set in the environment. Which ones pay: docs/capturing.md.
set -eu

# Where the files are, and how many of how many million bytes.
ring=${CQLENS_RING:-/var/lib/cqlens/ring}
files=${CQLENS_RING_FILES:-20}
megabytes=${CQLENS_RING_MEGABYTES:-200}

# `any` has all networks of the machine, and what programs on the machine itself send.
interface=${CQLENS_RING_INTERFACE:-any}

# CQL in clear text. For a part of the clients add for example `and net 10.1.2.0/28`, whole hosts: the statements that a client has
# prepared are then in the capture too.
filter=${CQLENS_RING_FILTER:-tcp port 9042}

# What the kernel keeps while this program waits for its turn, in KiB. When it says at the end that packets were dropped by the
# kernel, more of it helps.
buffer=${CQLENS_RING_BUFFER:-65536}

# Whole packets: a request that was cut cannot be counted exactly.
length=${CQLENS_RING_SNAPLEN:-0}

mkdir -p "$ring"
# Cassandra comes first. Each packet is in its file at once (-U), so that the newest file can be read, too.
exec nice -n 10 tcpdump -i "$interface" -n -U -s "$length" -B "$buffer" -C "$megabytes" -W "$files" \
    -Z "${CQLENS_RING_USER:-root}" -w "$ring/cql.pcap" "$filter"
