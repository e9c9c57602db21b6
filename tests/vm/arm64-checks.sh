# Runs in the guest of arm64.sh: one line per check, exit status 1 if one of them failed.
status=0
cd /tmp || exit 1
uname -r

say() { # VERDICT TEXT
    [ "$1" = ok ] || status=1
    printf '%-8s %s\n' "$1" "$2"
}

# The value of a line of the ledger.
ledger() { awk -v name="$1" '$1 == name { print $2 }' log; }

# The share of the time of all folded stacks with a frame that match, in percent.
share() { # FRAME PATTERN
    awk -v frame="$1" -v pattern="$2" '
        { time = $NF; sub(/ [0-9]+$/, "") }
        $0 ~ frame { all += time; if ($0 ~ pattern) matching += time }
        END { printf "%.2f\n", all ? 100 * matching / all : 0 }' stacks
}

# Whether a number lies in a range.
within() { awk -v n="$1" -v low="$2" -v high="$3" 'BEGIN { exit !(n != "" && n >= low && n <= high) }'; }

# Stacks below main that match the program's chain, and walks that reached the root; with the memo checked.
stacks() { # NAME PATTERN COMMAND…
    name=$1 pattern=$2
    shift 2
    "$@" > /dev/null &
    perf-agent --profile --profile-output profile --folded-output stacks --self-check --verbose --duration 3s --pid $! > log 2>&1 ||
        say FAILED "$name: $(tail -n 3 log)"
    kill $!
    judge "$name" "$pattern"
}

judge() { # NAME PATTERN
    name=$1 pattern=$2
    right=$(share ';main' "$pattern")
    rooted=$(ledger rooted_pct) samples=$(ledger samples) differed=$(ledger memo.differed)
    verdict=FAILED
    within "$right" 98 100 && within "$rooted" 98 100 && within "$samples" 60 100000 && [ "$differed" = 0 ] && verdict=ok
    say $verdict "$name: $right % of the stacks right, $rooted % rooted, $samples samples, memo differed $differed of $(ledger memo.checked)"
    [ $verdict = ok ] || { cut -c1-300 stacks | tail -n 12; cat log; }
}

ring=';ring_a;ring_b;ring_c'
chain=";main;descend($ring){12};spin\$|;main(;descend($ring)*(;ring_a|;ring_a;ring_b)?)?\$"
perf-agent --profile --profile-output profile --folded-output stacks --self-check --verbose --duration 3s -- \
    /programs/recurse 36 2000 > log 2>&1
judge "recurse from its start" "$chain"
stacks recurse "$chain" /programs/recurse 36 2000
stacks recurse-static "$chain" /programs/recurse-static 36 2000
stacks recurse-signed "$chain" /programs/recurse-signed 36 2000
stacks frames ';main(;grow(;variable(;huge(;spin)?)?)?)?$' /programs/frames
stacks vdso ';main(;ask(;clock_gettime)?(;__kernel_clock_gettime)?)?$' /programs/vdso
interrupted=';main(;work(;spin)?)?'
stacks signals "$interrupted(;[^;]*;on_signal(;handle(;spin)?)?)?\$" /programs/signals plain
handled=$(share ';main' ';on_signal;handle;spin$')
if within "$handled" 10 100; then say ok "signals: $handled % in the handler"; else say FAILED "signals: $handled % in the handler"; fi

# Threads that sleep and threads that work, off the CPU: the main thread waits all the time.
if perf-agent --offcpu --verbose --offcpu-output profile --folded-output stacks --duration 3s -- /programs/threads 2 > log 2>&1; then
    joined=$(awk '/main/ { time += $NF } END { printf "%d\n", time / 1000000 }' stacks)
    verdict=FAILED
    within "$(ledger rooted_pct)" 98 100 && within "$joined" 2000 4000 && verdict=ok
    say $verdict "off-CPU: main waits for $joined of 3000 ms, $(ledger rooted_pct) % rooted"
    [ $verdict = ok ] || { cat stacks log; }
else
    say FAILED "off-CPU: $(tail -n 3 log)"
fi

# Hardware counters against what a program counts by itself, as cycles per ns of its CPU clock. When a counter overflows, after
# 2^31, QEMU now and then counts much of its range twice (a program alone sees that, too): no capture is as long as that,
# and what fails is tried again.
counted() { awk -v name="$1" '$0 ~ "^  " name { sub(/^[^:]*: */, ""); print $1; exit }' report; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { if (a == "" || !b) print "none"; else printf "%.4f\n", a / b }'; }
close_to() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a + 0 > 0 && b + 0 > 0 && a / b > 0.9 && a / b < 1.1) }'; }

# Calls a function that sets `cycles`, `clock` and `expected`, a ratio; three times if need be.
compare() { # NAME FUNCTION
    for _ in 1 2 3; do
        "$2"
        ours=$(ratio "$cycles" "$clock")
        text="$1: ${cycles:-no} cycles in ${clock:-no} ns, $ours a ns; the program itself: $expected"
        if close_to "$ours" "$expected"; then
            say ok "$text"
            return
        fi
    done
    say FAILED "$text"
    cat report log
}

own=
of_a_command() {
    perf-agent --pmu --pmu-events cycles,task-clock,instructions --pmu-output report -- /programs/cycles 1000 > counts 2> log
    own=$(awk '/^cycles/ { print $2 / $4 }' counts)
    cycles=$(counted 'Total Cycles') clock=$(counted task-clock) expected=$own
}
compare "cycles of a command" of_a_command
if within "$cycles" "$(awk '/^cycles/ { print $2 }' counts)" 1e12; then say ok "no cycle of the program is missing"
else say FAILED "fewer cycles than the program counted itself: $(cat counts report)"; fi

# The times are those of the event itself: events are not enabled at one moment.
number() { grep -o "\"$1\":[0-9]*" report | head -n 1 | cut -d: -f2; }
of_a_process() {
    perf-agent --pmu --pmu-events cycles --pmu-format json --pmu-output all --duration 1s --pid $pid > log 2>&1
    tr -d ' \n' < all > report
    cycles=$(number value) clock=$(number enabled_ns) expected=$own
}
# Split by process at each switch: against the time for which they counted.
of_all_cpus() {
    perf-agent --pmu --pmu-events cycles --pmu-format json --pmu-output all --per-pid --duration 1s -a > log 2>&1
    tr -d ' \n' < all | sed 's/{"pid":/\n&/g' | grep "^{\"pid\":$pid," > report
    cycles=$(number value) clock=$(number enabled_ns) expected=$own
}
/programs/cycles > counts &
pid=$!
compare "cycles of a process" of_a_process
compare "cycles of all CPUs, split by process" of_all_cpus
kill $pid
wait $pid

# More events than the processor has counters: they take turns, and each is scaled. r11 is the cycles by number. While they
# change places, nothing is counted: the program itself, whose counters take turns with them, sees the same.
turns() {
    many=r11,r011,r0011,r00011,r000011,r0000011,r00000011,r000000011
    perf-agent --pmu --pmu-events "$many,task-clock" --pmu-output report -- /programs/cycles 1000 > counts 2> log
    cycles=$(counted r11) clock=$(counted task-clock) expected=$(awk '/^cycles/ { print $2 / $4 }' counts)
}
compare "counters that take turns, the first" turns
last() { turns; cycles=$(counted r000000011); }
compare "counters that take turns, the last" last
if grep -q 'scaled' report; then say ok "$(grep -c scaled report) of them scaled"; else say FAILED "none is scaled: $(cat report)"; fi
exit $status
