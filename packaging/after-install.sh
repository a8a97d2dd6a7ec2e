#!/bin/sh
# Nothing starts by itself: the settings name the cluster. A service that runs goes on with the old program until it is restarted.
set -e
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if systemctl --quiet is-active cqlens.service; then
    echo "cqlens: the new version runs after \`systemctl restart cqlens\`, which refuses no client if cqlens.socket is enabled"
fi
