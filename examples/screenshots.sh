#!/bin/sh
# Makes the pictures of the report that the README shows, from the report of `examples/example_report`: its first screen,
# light and dark. Needs Chromium; with pngquant the pictures are a third of the size.
#
# examples/screenshots.sh [FOLDER]   (docs/images)
set -eu

cd "$(dirname "$0")/.."
images=${1:-docs/images}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

for name in chromium chromium-browser google-chrome; do
    browser=$(command -v "$name") && break
done
[ -n "${browser:-}" ] || { echo "no Chromium found" >&2; exit 1; }

cargo run --quiet --example example_report -- -o "$work"
mkdir -p "$images"

# picture NAME FLAG...
picture() {
    name=$1
    shift
    "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=1440,900 \
        --user-data-dir="$work/profile" --screenshot="$work/$name.png" "$@" "file://$work/report.html" 2> "$work/log" ||
        { cat "$work/log" >&2; exit 1; }
    if command -v pngquant > /dev/null; then
        pngquant --force --strip --speed 1 64 --output "$images/$name.png" "$work/$name.png"
    else
        cp "$work/$name.png" "$images/$name.png"
    fi
}

picture report-light --blink-settings=preferredColorScheme=1
picture report-dark --blink-settings=preferredColorScheme=0
ls -l "$images"/report-*.png
