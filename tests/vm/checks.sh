# Runs in the guest of run.sh: one line per check, exit status 1 if one of them failed.
#   checks.sh PROGRAMS PYTHON…    names of known-answer programs with commas between them; interpreters
status=0
programs=$1
shift
export PERF_AGENT=/bin/perf-agent
mount -t debugfs none /sys/kernel/debug 2> /dev/null
mount -t tracefs none /sys/kernel/tracing 2> /dev/null
mount -t cgroup2 none /sys/fs/cgroup
ifconfig lo 127.0.0.1 up
cd /tmp || exit 1
uname -r

say() { # EXIT-STATUS TEXT; prints the log of a failure
    if [ "$1" = 0 ]; then echo "ok       $2"; else status=1; echo "FAILED   $2"; cat log; fi
}
# Succeeds once the command does, and fails if it does not within five minutes of the guest's clock.
until_true() { for _ in $(seq 1500); do "$@" && return; sleep 0.2; done; echo "in vain: $*"; return 1; }

# The kernel accepts the programs of each kind of capture. The times are those of the guest's clock.
for modes in "--profile --python off" "--profile --offcpu --wakers --locks" --heap; do
    LD_PRELOAD=/lib/loads.so perf-agent $modes --duration 100ms -- /truth/leaver-static 1 > log 2>&1
    say $? "perf-agent $modes"
    grep -E '^(verified|error)' log
done

truth check --out /truth --prebuilt --standalone --only "$programs" --seconds 3 --rate 99 --floor 99 || status=1
# The emulated processor has 5-level paging. Where the kernel has it too, that program has code and a stack above 47 bits.
if ! grep -qw la57 /proc/cpuinfo; then echo "left out addresses above 47 bits: this kernel has no 5-level paging"
else timeout 2 /truth/high-static must > log; grep -q ready log; say $? "addresses above 47 bits"; fi
truth offcpu --out /truth --prebuilt --standalone --seconds 1.5 --tolerance 10 --per-block-us 200 --crowd 500 || status=1

# Starts a capture, and waits until it has begun; sets `agent`.
capture() { # OPTION…
    perf-agent "$@" --metrics-listen 127.0.0.1:0 --duration 30m > log 2>&1 & agent=$!
    until_true grep -q 'metrics are served' log
}
ended() { kill -INT $agent; wait $agent; }

# What a process has done: hundredths of a second of CPU time, or waits.
progress() { # PID compute|nap
    if [ "$2" = compute ]; then awk '{ print $14 + $15 }' "/proc/$1/stat"; else sed -n 's/^voluntary.*\t//p' "/proc/$1/status"; fi
}
has_done() { [ "$(progress "$1" "$2")" -ge "$3" ]; }

# A capture lasts until the program has got CPU time for 800 samples, or has waited 400 times. The functions of the first samples may be missing,
# until perf-agent knows the interpreter. Waits are judged in one of the interpreters.
python() { # INTERPRETER compute|nap MODE
    wanted=400
    [ "$2" = nap ] || wanted=800
    $1 -I -S /python.py "$2" > ready & program=$!
    until_true grep -q ready ready
    capture "$3" "$3-output" python.pb.gz -F 99 --pid $program
    until_true has_done $program "$2" $(($(progress $program "$2") + wanted))
    ended && $1 -I -S /python.py judge "$2" python.pb.gz
    say $? "$1, $2"
    kill $program
}
for python in "$@"; do python "$python" compute --profile; done
python "$python" nap --offcpu

# The number of perf events that a process has open, which follow the CPUs.
events() { ls -l /proc/"$1"/fd | grep -c perf_event; }
fewer() { [ "$(events "$1")" -lt "$2" ]; }
as_many() { [ "$(events "$1")" -ge "$2" ]; }
online() { echo "$1" > /sys/devices/system/cpu/cpu1/online; }
switches="--pmu --pmu-output p --per-pid"

# A processor goes offline and online during a capture.
capture --profile --profile-output c --offcpu --offcpu-output o $switches -a
all=$(events $agent)
online 0; until_true fewer $agent "$all"; online 1; until_true as_many $agent "$all"
ended && grep -q 'CPU 1 came online' log
say $? "a processor goes and comes"

# A processor does so while perf-agent is frozen, as when a machine sleeps. The profile must have the program that runs there afterwards.
mkdir -p /sys/fs/cgroup/sleep
cp /truth/recurse-gcc-O2-static late
frozen() { echo "$1" > /sys/fs/cgroup/sleep/cgroup.freeze; until_true grep -q "frozen $1" /sys/fs/cgroup/sleep/cgroup.events; }
capture --profile --folded-output folded $switches -a
echo $agent > /sys/fs/cgroup/sleep/cgroup.procs
frozen 1; online 0; online 1; frozen 0
# perf-agent looks for events that have ended once a second. So much CPU time is more than it needs to see them.
(ulimit -t 5; taskset 2 ./late 36 2000) > /dev/null
ended && grep -q 'CPU 1 was offline for a moment' log && grep -q ^late folded
say $? "a processor goes and comes unseen"
exit $status
