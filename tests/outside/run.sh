#!/usr/bin/env bash
# Builds and runs a program outside of the workspace that uses the library, first with the system's libelf and zlib, then with the
# feature `static`. Prints what is wrong, or `skipped: ` and why it did not run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
target=${CARGO_TARGET_DIR:-$here/../../target}
cd "$here"
# With the profile of the workspace, Cargo takes the dependencies that it has built for the tests.
profile=$(mktemp --suffix .toml)
trap 'rm -f "$profile"' EXIT
awk '/^\[/ { inside = /^\[profile\.dev/ } inside' ../../Cargo.toml > "$profile"
# The versions of the workspace. Cargo removes what is not needed from the copy.
cp ../../Cargo.lock Cargo.lock
chmod u+w Cargo.lock

program=$target/debug/outside
build() { # FEATURE…
    # Nothing in the environment may be needed.
    env -u LIBBPF_SYS_LIBRARY_PATH cargo build --quiet --config "$profile" --target-dir "$target" "$@"
}
# No pipe: `grep -q` ends at the first match, and ldd, which still writes, then fails.
loads_elf() { [[ $(ldd "$program") == *libelf* ]]; }
check() { # HOW
    if [ "$(id -u)" != 0 ]; then
        echo "skipped: the program outside of the workspace, $1: needs root"
        return
    fi
    if ! /usr/bin/python3 "$here/../../tools/rights.py"; then
        echo "skipped: needs BPF and perf events: the kernel refuses them to this process"
        return
    fi
    local said
    said=$("$program")
    echo "$1: $said"
    [[ $said =~ ^([0-9]+)\ samples,\ ([0-9]+)\ %\ rooted,\ ([0-9]+)\ bytes\ of\ pprof,\ ended\ by\ TargetsExited$ ]] &&
        [ "${BASH_REMATCH[1]}" -ge 150 ] && [ "${BASH_REMATCH[2]}" -ge 95 ] && [ "${BASH_REMATCH[3]}" -gt 500 ] ||
        { echo "error: $1: that is no profile of a busy second" >&2; exit 1; }
}

build
loads_elf || { echo "error: without the feature static the program does not load the system's libelf" >&2; exit 1; }
check "with the system's libelf"
build --features static
! loads_elf || { echo "error: with the feature static the program loads the system's libelf" >&2; exit 1; }
check "with a static libelf"
