#!/bin/sh
# A .deb and an .rpm out of the archive that `packaging/archive.sh` has made. Needs nfpm (its Go module is github.com/goreleaser/nfpm/v2/cmd/nfpm).
#
#   sh packaging/archive.sh && sh packaging/packages.sh
#
# Leaves them beside the archive, each with a file of its SHA-256.
set -eu
cd "$(dirname "$0")/.."

out=${CQLENS_ARCHIVE_DIR:-target/archive}
archive=$(ls -t "$out"/cqlens-*.tar.gz 2>/dev/null | head -n 1)
[ -n "$archive" ] || {
    echo "$out has no archive: make it first, with packaging/archive.sh" >&2
    exit 2
}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tar -xzf "$archive" -C "$scratch"
name=$(basename "$archive" .tar.gz)
tree=$scratch/$name
CQLENS_VERSION=$(echo "$name" | cut -d - -f 2)
case $name in
*-x86_64-*) CQLENS_ARCH=amd64 ;;
*-aarch64-*) CQLENS_ARCH=arm64 ;;
*)
    echo "packages are for x86_64 and aarch64, this is $name" >&2
    exit 2
    ;;
esac
# The time of the last commit, so that the same program makes the same packages.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 0)
export CQLENS_VERSION CQLENS_ARCH SOURCE_DATE_EPOCH

# Units as they are where a package puts the program.
mkdir "$tree/units"
for unit in "$tree"/examples/deploy/*.service "$tree"/examples/deploy/*.socket "$tree"/examples/deploy/*.timer; do
    sed 's,/usr/local/bin/,/usr/bin/,g' "$unit" >"$tree/units/$(basename "$unit")"
done
gzip -9n "$tree"/man/*.1
mkdir "$tree/packaging"
cp packaging/nfpm.yaml packaging/*-install.sh packaging/*-remove.sh "$tree/packaging/"
mkdir "$scratch/packages"
for packager in deb rpm; do
    (cd "$tree" && nfpm package --config packaging/nfpm.yaml --packager "$packager" --target "$scratch/packages" >/dev/null)
done
cp "$scratch/packages"/* "$out/"
cd "$out"
for package in cqlens*.deb cqlens*.rpm; do
    sha256sum "$package" >"$package.sha256"
    echo "$out/$package"
done
