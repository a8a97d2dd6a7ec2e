#!/bin/sh
# Stops the service when the package goes, and not when a new version takes its place: `remove` of dpkg, 0 of rpm.
set -e
case "$1" in remove | 0) ;; *) exit 0 ;; esac
[ -d /run/systemd/system ] || exit 0
systemctl --quiet disable --now cqlens.socket cqlens.service cqlens-sniff.timer cqlens-weekly.timer || true
