#!/usr/bin/env bash
# The gate. Runs everything even if something fails; the last line is `N passed, N failed, N skipped`. Logs: target/gate.
#   gate.sh          all of `make test`: formatting, lints, documentation, licences, direction of use, tests, other kernels
#   gate.sh fast     formatting, direction of use, and the tests that need no root and run nothing as a whole
#   gate.sh long     what takes longer than `make test` may: aarch64 in emulation, fuzzing, endurance, 500 agents among changing targets,
#                  programs in Python that are switched on and off hundreds of times
# Cargo builds two profiles: release for the shipped binary, dev (with overflow checks) for the tests.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin
mode=${1:-full}
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/gate
kernels=(5.10 6.1 6.12)
# Of each fuzz target, in the long gate.
fuzz_seconds=${FUZZ_SECONDS:-60}

command -v cargo > /dev/null || { echo "error: cargo is missing: install stable Rust, see https://rustup.rs" >&2; exit 1; }
case $mode in
full) tools/packages.sh build test || exit 1 ;;
fast) ;;
long) tools/packages.sh build test long || exit 1 ;;
*) echo "usage: gate.sh [fast | long]" >&2; exit 2 ;;
esac
if command -v go > /dev/null && go=$(tools/go.sh); then PATH=$go:$PATH; fi
rm -rf "$logs"
mkdir -p "$logs"
# Unit tests, and the integration tests of packages that are parts. The integration tests of `cli`, `kernel`, `perfagent`, `truth` and
# `bench` run whole captures: their program is named `whole`, that of `cli` `command_line`.
parts=(--lib --bins --test suite)
passed=0 failed=0 skipped=0 reasons=() failures=() unsteady=()
tree=$(git status --porcelain 2> /dev/null)

# The reasons for which a test may be skipped here: of those for all users, and of those for this one.
[ "$(id -u)" = 0 ] && user=root || user=other
# Tracepoints are described in tracefs. Where it cannot be mounted their tests are skipped.
tracefs=
if [ $user = root ] && [ ! -d /sys/kernel/tracing/events ]; then
    mount -t tracefs none /sys/kernel/tracing 2> /dev/null && tracefs=/sys/kernel/tracing
fi
awk -v user=$user '$1 == "all" || $1 == user { sub(/^[a-z]+ +/, ""); print }' tools/expected-skips.txt > "$logs/expected-skips"

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); failures+=("$1"); }
skip() { # WHAT: WHY
    skipped=$((skipped + 1))
    reasons+=("$1")
    grep -qE -f "$logs/expected-skips" <<< "$1" || fail "skipped for a reason that tools/expected-skips.txt does not list: $1"
}

# A check that failed and then passed alone: either other work on the machine spoiled it, or it is a race. It is listed with the
# cause of the first failure, since both are defects of the check or of the product.
unsteady() { unsteady+=("$1"); }

# Runs a command with its output in a log; shows its end if it fails.
run() { # NAME COMMAND…
    local name=$1 start=$SECONDS status=0
    shift
    printf '%-20s ' "$name"
    timeout --kill-after=10 "${limit:-1200}" "$@" > "$logs/$name.log" 2>&1 < /dev/null || status=$?
    printf '%-6s %4d s\n' "$([ $status = 0 ] && echo ok || echo FAILED)" $((SECONDS - start))
    [ $status = 0 ] || tail -n 40 "$logs/$name.log" | sed 's/^/    /'
    return $status
}
step() { if run "$@"; then pass; else fail "$1"; return 1; fi; }

# The names of the tests that failed.
failed_tests() { # LOG
    # The name of another test that has just begun may stand before it.
    sed -nE 's/^(.* )?test ([^ ]+) \.\.\. FAILED$/\2/p' "$1"
}

# Why a test failed: the messages of its panics, on one line.
cause() { # LOG TEST
    awk -v heading="---- $2 stdout ----" '
        $0 == heading { inside = 1; next }
        /^---- .* stdout ----$/ || /^(failures|successes):$/ { inside = 0; message = 0 }
        !inside { next }
        /panicked at / { message = 1; next }
        /^note: / || /^stack backtrace:$/ || /^ +[0-9]+: / || /^$/ { message = 0; next }
        message { gsub(/[[:space:]]+/, " "); printf "%s%s", (told++ ? " " : ""), $0 }' "$1" | cut -c 1-400
}

# Adds libtest's own counts. A test that passed and printed `skipped: ` was skipped (crate testkit).
count_tests() { # LOG
    local ok bad name
    read -r ok bad < <(awk '/^test result:/ { ok += $4; bad += $6 } END { print ok + 0, bad + 0 }' "$1")
    passed=$((passed + ok)) failed=$((failed + bad))
    while read -r name; do skip "$name"; done < <(sed -nE 's/^test (.*) \.\.\. ignored(, (.*))?$/\1: \3/p' "$1" | sed 's/: $/: ignored unless asked for/')
    while read -r name; do
        passed=$((passed - 1))
        skip "$name"
    done < <(awk '
        /^test .* \.\.\. ok$/ { ok[$2] = 1 }
        /^---- .* stdout ----$/ { name = $2; next }
        /^(failures|successes):$/ { name = "" }
        /^test result:/ { delete ok; delete told; name = "" }
        # Several reasons of one test are one skip.
        name in ok && !(name in told) && sub(/^.*skipped: /, "") {
            sub("^" name ": ", "")
            print name ": " $0
            told[name] = 1
        }' "$1")
}

# Other kernels, all guests at once: each takes one core at most, and hardly any check in it depends on times.
boot_kernels() { # KERNEL…
    local kernel guests=()
    trap '[ ${#guests[@]} = 0 ] || kill "${guests[@]}" 2> /dev/null; exit' TERM
    for kernel in "$@"; do
        boot_kernel "$kernel" &
        guests+=($!)
    done
    wait
}
boot_kernel() { # KERNEL
    local child=
    trap '[ -z "$child" ] || kill "$child"; exit' TERM
    timeout --kill-after=10 900 tests/vm/run.sh "$1" > "$logs/kernel-$1.log" 2>&1 < /dev/null &
    child=$!
    wait "$child"
    echo $? > "$logs/kernel-$1.status"
}
count_kernels() {
    local kernel log reason line
    for kernel in "${kernels[@]}"; do
        log=$logs/kernel-$kernel.log
        reason=$(sed -n 's/^skipped: tests\/vm //p' "$log" | head -n 1)
        if [ "$(cat "$logs/kernel-$kernel.status")" != 0 ]; then
            echo "kernel $kernel: FAILED"
            tail -n 40 "$log" | sed 's/^/    /'
            mv "$log" "$logs/kernel-$kernel.first.log"
            (boot_kernels "$kernel")
            if [ "$(cat "$logs/kernel-$kernel.status")" = 0 ]; then
                line=$(grep -m 1 -E '^(FAILED|perf-agent failed)' "$logs/kernel-$kernel.first.log" || tail -n 1 "$logs/kernel-$kernel.first.log")
                unsteady "kernel $kernel: held at try 2; try 1: ${line:0:400}"
                pass
            else
                fail "kernel $kernel"
            fi
        elif [ -n "$reason" ]; then
            skip "kernel $kernel: $reason"
        else
            pass
        fi
        while read -r line; do unsteady "kernel $kernel: $line"; done < <(sed -n 's/^unsteady //p' "$log")
    done
}

# Runs tests of all packages, counts them, and runs those that failed alone, up to three times.
run_tests() { # LOG TARGET-OPTION… [-- FILTER…]
    local log=$1 targets=() filters=() tests=0 ended told name names left n
    shift
    while [ $# -gt 0 ] && [ "$1" != -- ]; do targets+=("$1"); shift; done
    [ $# = 0 ] || { shift; filters=("$@"); }
    run "$log" cargo test --workspace --locked --no-fail-fast "${targets[@]}" -- --show-output "${filters[@]}" || tests=$?
    # A test program that was killed prints no result.
    ended=$(sed -nE 's/^error: ([0-9]+) targets? failed:$/\1/p' "$logs/$log.log")
    told=$(grep -c '^test result: FAILED' "$logs/$log.log")
    if [ $tests != 0 ] && [ "$ended" != "$told" ]; then fail "$log: not all test programs came to their end"; fi
    count_tests "$logs/$log.log"
    mapfile -t names < <(failed_tests "$logs/$log.log" | sort -u)
    for n in 1 2 3; do
        [ ${#names[@]} -gt 0 ] || return 0
        run "$log-again-$n" cargo test --workspace --locked --no-fail-fast "${targets[@]}" -- --exact --test-threads=1 --show-output "${names[@]}"
        left=()
        for name in "${names[@]}"; do
            if grep -qFx "test $name ... ok" "$logs/$log-again-$n.log" && ! grep -qFx "test $name ... FAILED" "$logs/$log-again-$n.log"; then
                unsteady "$name: held at try $((n + 1)); try 1: $(cause "$logs/$log.log" "$name")"
                passed=$((passed + 1)) failed=$((failed - 1))
            else
                left+=("$name")
            fi
        done
        names=("${left[@]}")
    done
    for name in "${names[@]}"; do failures+=("$name: $(cause "$logs/$log.log" "$name")"); done
}

# Checks that need neither a build nor a test.
check_sources() {
    step format cargo fmt --all --check -- --color never
    if [ $mode = full ] || command -v clang-format > /dev/null; then
        step format-c clang-format --dry-run -Werror bpf/*.[ch] bpf/abi/*.h bench/bpf/*.[ch]
    fi
    run workspace /usr/bin/python3 tools/workspace.py
    passed=$((passed + $(grep -c '^passed: ' "$logs/workspace.log")))
    if grep -q '^failed: ' "$logs/workspace.log"; then
        while read -r line; do fail "${line#failed: }"; done < <(grep '^failed: ' "$logs/workspace.log")
    elif ! grep -q '^passed: ' "$logs/workspace.log"; then
        fail workspace
    fi
    # A skip that testkit does not print is not counted.
    step skips-in-one-place sh -c '! grep -rnE "print(ln)?!\(\"skipped" crates --include="*.rs" --exclude-dir=testkit'
}

full() {
    local guests=
    check_sources
    # The same rules once more, by the tool that they were written for, where it is installed.
    if command -v cargo-deny > /dev/null; then
        step deny cargo deny check licenses bans sources
    fi
    # Builds do not hang, but other work on the machine may make them slow.
    if limit=3600 step build cargo build --release --locked -p cli -p truth; then
        run build-again cargo build --release --locked -p cli -p truth --verbose
        if grep -qE '^ *(Compiling|Dirty|Running)' "$logs/build-again.log"; then
            grep -E '^ *(Compiling|Dirty)' "$logs/build-again.log"
            fail "a second build is not empty"
        else
            pass
        fi
        if [ "$(uname -m)" = x86_64 ]; then
            boot_kernels "${kernels[@]}" &
            guests=$!
            trap 'kill "$guests" 2> /dev/null' EXIT
        else
            for kernel in "${kernels[@]}"; do skip "kernel $kernel: the guests are x86-64, this machine is $(uname -m)"; done
        fi
    fi
    # The guests go first: builds do not depend on times.
    limit=3600 step clippy nice cargo clippy --workspace --all-targets --locked -- -D warnings
    limit=3600 step documentation env RUSTDOCFLAGS="-D warnings" nice cargo doc --workspace --no-deps --locked
    limit=3600 step package nice tools/package.sh --allow-dirty
    limit=3600 step build-tests nice cargo test --workspace --locked --no-run
    local built=$?
    # These do not measure: they share the machine with the guests.
    [ $built != 0 ] || run_tests tests-of-parts "${parts[@]}" --test slow_reader --test command_line
    if [ -n "$guests" ]; then
        local start=$SECONDS
        wait "$guests"
        guests=
        trap - EXIT
        printf '%-20s %-6s %4d s waited for\n' kernels ended $((SECONDS - start))
        count_kernels
    fi
    # These measure: nothing else runs beside them.
    if [ $built = 0 ]; then
        run_tests tests --test whole
        run_tests doc-tests --doc
    fi
    outside
}

# A program outside of the workspace that uses the library.
outside() {
    local reason
    if ! limit=3600 run outside tests/outside/run.sh; then
        fail outside
        return
    fi
    reason=$(sed -n 's/^skipped: //p' "$logs/outside.log" | head -n 1)
    if [ -n "$reason" ]; then skip "$reason"; else pass; fi
}

fast() {
    check_sources
    run_tests tests-of-parts "${parts[@]}"
}

long() {
    if limit=3600 step build cargo build --release --locked -p cli -p bench -p truth; then
        limit=1200 step endurance "$target/release/bench" --out "$target/truth" endurance --check
        # Each agent takes a second.
        limit=3600 step chaos env PERF_AGENT_CHAOS_AGENTS=500 cargo test --locked -p truth --test whole chaos::
    fi
    limit=5400 step injection cargo test --locked -p python_trampoline --lib long_ -- --ignored --test-threads=1
    local reason guest
    for guest in many_cpus preempt arm64; do
        if limit=3600 run "$guest" "tests/vm/$guest.sh"; then
            reason=$(sed -n "s/^skipped: tests\/vm\/$guest.sh //p" "$logs/$guest.log" | head -n 1)
            if [ -n "$reason" ]; then skip "$guest: $reason"; else pass; fi
        else
            fail "$guest"
        fi
    done
    if ! cargo +nightly --version > /dev/null 2>&1 && ! run nightly rustup toolchain install nightly --profile minimal; then
        skip "fuzzing: no nightly Rust, and none can be installed"
        return
    fi
    if ! command -v cargo-fuzz > /dev/null; then
        if ! run cargo-fuzz cargo install --locked --target-dir "$target/cargo-fuzz" cargo-fuzz; then
            skip "fuzzing: no cargo-fuzz, and it cannot be installed"
            return
        fi
        rm -rf "$target/cargo-fuzz"
    fi
    local name
    for name in $(cargo +nightly fuzz list); do
        limit=$((fuzz_seconds + 1800)) step "fuzz-$name" tools/fuzz.sh "$fuzz_seconds" "$name"
    done
}

"$mode"
[ -z "$tracefs" ] || umount "$tracefs"
if [ "$(git status --porcelain 2> /dev/null)" = "$tree" ]; then pass; else fail "the tests changed the working tree"; fi

echo
for reason in "${reasons[@]}"; do echo "skipped: $reason"; done
for name in "${unsteady[@]}"; do echo "unsteady: $name"; done
for failure in "${failures[@]}"; do echo "failed: $failure"; done
echo "took $((SECONDS / 60)) min $((SECONDS % 60)) s; logs in $logs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
