#!/usr/bin/env bash
# The whole gate: formatting, lints, documentation, licences, direction of use, tests, other kernels.
# Runs everything even if something fails; the last line is `N passed, N failed, N skipped`. Logs: target/gate.
# Cargo builds two profiles, release for what is shipped and dev (with overflow checks) for the tests.
set -uo pipefail
cd "$(dirname "$0")/.."
export PATH=$PATH:$HOME/.cargo/bin:/usr/local/go/bin:/usr/sbin:/sbin
target=${CARGO_TARGET_DIR:-$PWD/target}
logs=$target/gate
kernels=(5.10 6.1 6.12)

command -v cargo > /dev/null || { echo "error: cargo is missing: install stable Rust, see https://rustup.rs" >&2; exit 1; }
tools/packages.sh build test || exit 1
go=$(tools/go.sh) && PATH=$go:$PATH
rm -rf "$logs"
mkdir -p "$logs"
passed=0 failed=0 skipped=0 reasons=() failures=() unsteady=()
tree=$(git status --porcelain 2> /dev/null)

pass() { passed=$((passed + 1)); }
fail() { failed=$((failed + 1)); failures+=("$1"); }
skip() { skipped=$((skipped + 1)); reasons+=("$1"); }

# Runs a command with its output in a log; shows its end if it fails.
run() { # NAME COMMAND…
    local name=$1 start=$SECONDS status=0
    shift
    printf '%-20s ' "$name"
    timeout --kill-after=10 1200 "$@" > "$logs/$name.log" 2>&1 < /dev/null || status=$?
    printf '%-6s %4d s\n' "$([ $status = 0 ] && echo ok || echo FAILED)" $((SECONDS - start))
    [ $status = 0 ] || tail -n 40 "$logs/$name.log" | sed 's/^/    /'
    return $status
}
step() { if run "$@"; then pass; else fail "$1"; return 1; fi; }

# What failed once and held when it ran again with nothing beside it: others' work spoiled it, or it is a race. Told, since
# either is a defect of the check or of what it checks.
unsteady() { unsteady+=("$1"); }

# The names of the tests that failed.
failed_tests() { awk '/^test .* \.\.\. FAILED$/ { print $2 }' "$1"; }

# libtest's own counts; a test that says that it skipped did not pass.
count_tests() { # LOG
    local ok bad name reason
    read -r ok bad < <(awk '/^test result:/ { ok += $4; bad += $6 } END { print ok + 0, bad + 0 }' "$1")
    passed=$((passed + ok)) failed=$((failed + bad))
    while read -r name; do skip "$name"; done < <(sed -nE 's/^test (.*) \.\.\. ignored(, (.*))?$/\1: \3/p' "$1" | sed 's/: $/: ignored unless asked for/')
    while IFS=$'\t' read -r name reason; do
        passed=$((passed - 1))
        skip "$name: $reason"
    done < <(awk '/^---- .* stdout ----$/ { name = $2; told = 0 }
        /^test result:/ { name = "" }
        name != "" && !told && sub(/^.*skipped: /, "") { print name "\t" $0; told = 1 }' "$1")
}

# Other kernels, in the background: a guest runs on one core, and next to nothing in it depends on times.
boot_kernels() { # KERNEL…
    local kernel child=
    trap '[ -z "$child" ] || kill "$child"; exit' TERM
    for kernel in "$@"; do
        timeout --kill-after=10 900 tests/vm/run.sh "$kernel" > "$logs/kernel-$kernel.log" 2>&1 < /dev/null &
        child=$!
        wait "$child"
        echo $? > "$logs/kernel-$kernel.status"
    done
}
count_kernels() {
    local kernel log reason name
    for kernel in "${kernels[@]}"; do
        log=$logs/kernel-$kernel.log
        reason=$(sed -n 's/^skipped: tests\/vm //p' "$log" | head -n 1)
        if [ "$(cat "$logs/kernel-$kernel.status")" != 0 ]; then
            echo "kernel $kernel: FAILED"
            tail -n 40 "$log" | sed 's/^/    /'
            mv "$log" "$logs/kernel-$kernel.first.log"
            (boot_kernels "$kernel")
            if [ "$(cat "$logs/kernel-$kernel.status")" = 0 ]; then
                unsteady "kernel $kernel"
                pass
            else
                fail "kernel $kernel"
            fi
        elif [ -n "$reason" ]; then
            skip "kernel $kernel: $reason"
        else
            pass
        fi
        while read -r name; do unsteady "kernel $kernel: $name"; done < <(sed -n 's/^unsteady //p' "$log")
    done
}

# Failed tests alone, up to three times: each time those that have not held yet.
run_again() {
    local name names left n
    mapfile -t names < <(failed_tests "$logs/tests.log" | sort -u)
    for n in 1 2 3; do
        [ ${#names[@]} -gt 0 ] || return 0
        run "tests-again-$n" cargo test --workspace --locked --no-fail-fast -- --exact --test-threads=1 --show-output "${names[@]}"
        left=()
        for name in "${names[@]}"; do
            if grep -qFx "test $name ... ok" "$logs/tests-again-$n.log" && ! grep -qFx "test $name ... FAILED" "$logs/tests-again-$n.log"; then
                unsteady "$name: held at try $((n + 1))"
                passed=$((passed + 1)) failed=$((failed - 1))
            else
                left+=("$name")
            fi
        done
        names=("${left[@]}")
    done
    failures+=("${names[@]}")
}

step format cargo fmt --all --check -- --color never
step format-c clang-format --dry-run -Werror bpf/*.[ch] bench/bpf/*.[ch]
run workspace /usr/bin/python3 tools/workspace.py
passed=$((passed + $(grep -c '^passed: ' "$logs/workspace.log")))
if grep -q '^failed: ' "$logs/workspace.log"; then
    while read -r line; do fail "${line#failed: }"; done < <(grep '^failed: ' "$logs/workspace.log")
elif ! grep -q '^passed: ' "$logs/workspace.log"; then
    fail workspace
fi
# The same rules once more, by the tool they were written for, where it is installed.
if command -v cargo-deny > /dev/null; then
    step deny cargo deny check licenses bans sources
fi
guests=
if step build cargo build --release --locked -p cli -p truth; then
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
step clippy cargo clippy --workspace --all-targets --locked -- -D warnings
step documentation env RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

step build-tests cargo test --workspace --locked --no-run
tests_built=$?
if [ -n "$guests" ]; then
    start=$SECONDS
    wait "$guests"
    printf '%-20s %-6s %4d s waited for\n' kernels ended $((SECONDS - start))
    count_kernels
fi
# With nothing else running: they measure.
if [ $tests_built = 0 ]; then
    run tests cargo test --workspace --locked --no-fail-fast -- --show-output
    tests=$?
    # A test program that was killed in the middle says nothing of its tests.
    ended=$(sed -nE 's/^error: ([0-9]+) targets? failed:$/\1/p' "$logs/tests.log")
    told=$(grep -c '^test result: FAILED' "$logs/tests.log")
    if [ $tests != 0 ] && [ "$ended" != "$told" ]; then fail "tests: not all test programs came to their end"; fi
    count_tests "$logs/tests.log"
    run_again
fi

if [ "$(git status --porcelain 2> /dev/null)" = "$tree" ]; then pass; else fail "the tests changed the working tree"; fi

echo
for reason in "${reasons[@]}"; do echo "skipped: $reason"; done
for name in "${unsteady[@]}"; do echo "unsteady: $name"; done
for failure in "${failures[@]}"; do echo "failed: $failure"; done
echo "took $((SECONDS / 60)) min $((SECONDS % 60)) s; logs in $logs"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
