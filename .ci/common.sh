# What `.ci/run` and `.ci/full` share: steps that all run whatever the ones before them did, and what is said at the end.
# Sourced, from the top folder of the checkout.

export CARGO_BUILD_JOBS="${CARGO_BUILD_JOBS:-2}"
export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-never}"
# A clean checkout is built once: what a second build would save only costs.
export CARGO_INCREMENTAL="${CARGO_INCREMENTAL:-0}"
skipped_steps=()
# What each step leaves, by the time of its beginning: `*.row` (its name, its outcome, its seconds, those of the processors, the
# tests that passed and failed) and `*.tests` (what its tests print).
steps=$(mktemp -d)
declare -A beside
trap 'rm -rf "$steps"' EXIT

# begin_beside NAME COMMAND...: begins a command that has steps of its own, and goes on; join_beside NAME waits for its end, and
# prints what it said.
begin_beside() {
    local name=$1
    shift
    (
        trap - EXIT
        "$@"
    ) >"$steps/$name.log" 2>&1 &
    beside[$name]=$!
}

join_beside() {
    wait "${beside[$1]}"
    cat "$steps/$1.log"
}

# step NAME COMMAND...: runs it.
step() {
    local begun name=$1 started=$SECONDS outcome=ok shell=$BASHPID processors
    begun=$(date +%s%N)
    shift
    processors=$(processor_seconds "$shell")
    step_tests=$steps/$begun.tests
    touch "$step_tests"
    echo "== $name"
    "$@" </dev/null || outcome=FAILED
    echo "== $name: $outcome, $((SECONDS - started)) s"
    processors=$(($(processor_seconds "$shell") - processors))
    echo "$name|$outcome|$((SECONDS - started))|$processors|$(counts "$step_tests")" >"$steps/$begun.row"
}

# processor_seconds PROCESS: what its children that have ended have used. Nodes of Cassandra are killed and not waited for:
# they are not in it.
processor_seconds() {
    awk -v ticks="$(getconf CLK_TCK)" '{ print int(($16 + $17) / ticks) }' "/proc/$1/stat"
}

# skip WHAT WHY
skip() {
    echo "== $1: skipped because $2"
    skipped_steps+=("$1: $2")
}

# tested COMMAND...: runs tests, and keeps what they print for the end.
tested() {
    "$@" 2>&1 | tee -a "$step_tests"
}

# The packages of a Debian-like system for the tools that are missing; on another system the tools must be there.
install_missing() {
    local packages=()
    command -v java >/dev/null || packages+=(openjdk-17-jdk-headless)
    command -v mvn >/dev/null || packages+=(maven)
    command -v nft >/dev/null || packages+=(nftables)
    command -v iptables >/dev/null || packages+=(iptables)
    # Several users in one namespace need it, unless root runs the tests.
    [ "$(id -u)" -eq 0 ] || command -v newuidmap >/dev/null || packages+=(uidmap)
    command -v tcpdump >/dev/null || packages+=(tcpdump)
    command -v kubectl >/dev/null || packages+=(kubernetes-client)
    command -v ip >/dev/null || packages+=(iproute2)
    command -v systemd-analyze >/dev/null || packages+=(systemd)
    command -v chromium >/dev/null || packages+=(chromium)
    command -v tmux >/dev/null || packages+=(tmux)
    command -v pgrep >/dev/null || packages+=(procps)
    command -v groff >/dev/null || packages+=(groff-base)
    command -v promtool >/dev/null || packages+=(prometheus)
    command -v go >/dev/null || packages+=(golang-go)
    command -v node >/dev/null || packages+=(nodejs)
    command -v npm >/dev/null || packages+=(npm)
    command -v python3 >/dev/null || packages+=(python3)
    python3 -c 'import ensurepip, venv' 2>/dev/null || packages+=(python3-venv)
    [ ${#packages[@]} -gt 0 ] || return 0
    local root=()
    [ "$(id -u)" -eq 0 ] || root=(sudo)
    "${root[@]}" apt-get update --quiet=2 || return
    DEBIAN_FRONTEND=noninteractive "${root[@]}" apt-get install --yes --quiet=2 --no-install-recommends "${packages[@]}"
}

# cargo_tool NAME VERSION: as a debug build, which is made in half the time; what these tools have to do takes seconds.
cargo_tool() {
    cargo "${1#cargo-}" --version 2>/dev/null ||
        CARGO_PROFILE_DEV_DEBUG=0 cargo install "$1" --version "$2" --locked --quiet --debug
}

formats() {
    local manifest
    cargo fmt --all --check || return
    for manifest in fuzz benches/compare tests/cassandra/rust; do
        cargo fmt --manifest-path "$manifest/Cargo.toml" --check || return
    done
}

# The tests of the rings that plain `cargo test` leaves out are linted by name.
lints() {
    cargo clippy --workspace --all-features --all-targets --quiet -- -D warnings &&
        cargo clippy --workspace --all-features --test cassandra --test external --quiet -- -D warnings
}

documentation() {
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps --quiet
}

# Passed and failed in what tests have printed, with a bar between them: the sums over `test result: ok. 12 passed; 0 failed; …`.
counts() {
    awk '
        /^test result:/ {
            for (i = 2; i <= NF; i++) {
                if ($i == "passed;") passed += $(i - 1)
                if ($i == "failed;") failed += $(i - 1)
            }
        }
        END { printf "%d|%d\n", passed, failed }' "$@"
}

# Names what was not run: tests that lacked something or belong to another ring, and steps.
left_out() {
    {
        sed -nE 's/^(skipped|left out): /  \1: /p' "$steps"/*.tests
        [ ${#skipped_steps[@]} -eq 0 ] || printf '  skipped: %s\n' "${skipped_steps[@]}"
    } | sort | uniq -c | sort -rn
}

# The tests that failed, each with the first lines of what it said.
failures() {
    awk '
        /^---- .* stdout ----$/ { lines = 16 }
        lines-- > 0 { print "  " substr($0, 1, 1000) }' "$steps"/*.tests
}

# The versions under test, of servers and drivers.
versions() {
    sed -n 's/^\([a-z0-9_"-]* *= *".*\)$/  \1/p' tests/versions.toml
}

# What ran, how long, with how much of the processors' time, and how it ended.
table() {
    local name outcome seconds processors passed failed
    echo "with"
    versions
    printf '%-28s %-7s %8s %10s %8s %8s\n' what ended seconds processors passed failed
    while IFS='|' read -r name outcome seconds processors passed failed; do
        printf '%-28s %-7s %8s %10s %8s %8s\n' "$name" "$outcome" "$seconds" "$processors" "$passed" "$failed"
    done < <(cat "$steps"/*.row)
    printf '%-28s %-7s %8s\n' all "" $SECONDS
}

# The end: what ran, what was left out, and the number of tests that passed and failed. 0 only if all steps did what they
# should.
summary() {
    local all failed_steps
    table
    left_out
    failures
    failed_steps=$(awk -F'|' '$2 != "ok" { print "  " $1 }' "$steps"/*.row)
    [ -z "$failed_steps" ] || echo "failed steps:"$'\n'"$failed_steps"
    all=$(counts "$steps"/*.tests)
    echo "${all%|*} passed, ${all#*|} failed"
    [ -z "$failed_steps" ]
}
