#!/bin/sh
# What is linked into cqlens, with versions and licences (CycloneDX), beside the archive. Needs cargo-cyclonedx.
#
#   sh packaging/archive.sh && sh packaging/sbom.sh
#
# CQLENS_TARGET is the target that the archive was built for, if it is another one than this machine's.
set -eu
cd "$(dirname "$0")/.."

out=${CQLENS_ARCHIVE_DIR:-target/archive}
target=${CQLENS_TARGET:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
name=cqlens-$version-$target.cdx.json

# The tool writes one file for each crate, beside its manifest.
scratch=cqlens-sbom-$$
trap 'rm -f "$scratch.json" proto/"$scratch.json" crates/*/"$scratch.json"' EXIT
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export SOURCE_DATE_EPOCH
cargo cyclonedx --quiet --format json --spec-version 1.5 --features full --target "$target" --no-build-deps \
    --override-filename "$scratch"
mkdir -p "$out"
# Where it was built is nobody's business.
sed "s,path+file://$PWD,path+file://,g" "$scratch.json" >"$out/$name"
(cd "$out" && sha256sum "$name" >"$name.sha256")
echo "$out/$name"
