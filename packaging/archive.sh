#!/bin/sh
# An archive of a built program for machines that have no Rust: the program, its licence, the README, the documentation, completions
# and manual pages, and a file with the archive's SHA-256.
#
#   cargo build --profile dist --features full --locked && sh packaging/archive.sh
#   sh packaging/archive.sh debug               # of another profile's program, to try the archive
#
# For machines of any age, a static program: `cargo build … --target x86_64-unknown-linux-musl`, and CQLENS_TARGET=x86_64-unknown-linux-musl.
# packages.sh and sbom.sh go on from there.
#
# Leaves target/archive/cqlens-VERSION-TARGET.tar.gz and the same with .sha256 behind it. The same program makes the same archive, byte for byte:
# times, owners and order are fixed.
set -eu
cd "$(dirname "$0")/.."

profile=${1:-dist}
target=${CQLENS_TARGET:-}
built=${CARGO_TARGET_DIR:-target}/${target:+$target/}$profile/cqlens
out=${CQLENS_ARCHIVE_DIR:-target/archive}

[ -x "$built" ] || {
    echo "$built is missing: build it first" >&2
    exit 2
}
version=$("$built" --version | cut -d ' ' -f 2)
name=cqlens-$version-${target:-$(rustc -vV | sed -n 's/^host: //p')}

mkdir -p "$out"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/$name"
cp "$built" LICENSE README.md CHANGELOG.md "$scratch/$name/"
cp -R docs "$scratch/$name/"
# The units and scripts that the documentation names.
mkdir "$scratch/$name/examples"
cp -R examples/deploy examples/prometheus examples/grafana examples/spark "$scratch/$name/examples/"
mkdir "$scratch/$name/completions" "$scratch/$name/man"
for shell in bash zsh fish; do
    "$built" completions "$shell" >"$scratch/$name/completions/cqlens.$shell"
done
"$built" man -o "$scratch/$name/man"
# Debug information is for those who build it themselves.
strip "$scratch/$name/cqlens" 2>/dev/null || true

# The time of the last commit, so that the archive does not depend on when it is made.
made=$(git log -1 --format=%ct 2>/dev/null || echo 0)
tar --sort=name --mtime="@$made" --owner=0 --group=0 --numeric-owner --mode=go-w -C "$scratch" -cf - "$name" |
    gzip -9n >"$out/$name.tar.gz"
(cd "$out" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
