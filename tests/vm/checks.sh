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

truth check --out /truth --prebuilt --standalone --only "$programs" --seconds 1.5 --rate 199 --floor 99 || status=1
# The emulated processor has 5-level paging. Where the kernel has it too, that program has code and a stack above 47 bits.
if ! grep -qw la57 /proc/cpuinfo; then echo "left out addresses above 47 bits: this kernel has no 5-level paging"
else timeout 2 /truth/high-static must > log; grep -q ready log; say $? "addresses above 47 bits"; fi
truth offcpu --out /truth --prebuilt --standalone --seconds 1.5 --tolerance 10 --per-block-us 200 --crowd 500 || status=1

# Waits are looked at in one of the interpreters.
python() { # INTERPRETER compute|nap MODE
    $1 -I -S /python.py "$2" > ready & program=$!
    until_true grep -q ready ready
    perf-agent "$3" "$3-output" python.pb.gz -F 99 --duration 2s --pid $program > log 2>&1 &&
        $1 -I -S /python.py judge "$2" python.pb.gz
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

# Starts a capture of the machine, and waits until it has begun; sets `agent`.
capture() { # OPTION…
    perf-agent "$@" --pmu --pmu-output p --per-pid --metrics-listen 127.0.0.1:0 --duration 30m -a > log 2>&1 & agent=$!
    until_true grep -q 'metrics are served' log
}
ended() { kill -INT $agent; wait $agent; }

# A processor goes offline and online during a capture.
capture --profile --profile-output c --offcpu --offcpu-output o
all=$(events $agent)
online 0; until_true fewer $agent "$all"; online 1; until_true as_many $agent "$all"
ended && grep -q 'CPU 1 came online' log
say $? "a processor goes and comes"

# The same while perf-agent is frozen, as when a machine sleeps: what runs on the processor afterwards must be in the profile.
mkdir -p /sys/fs/cgroup/sleep
cp /truth/recurse-gcc-O2-static late
frozen() { echo "$1" > /sys/fs/cgroup/sleep/cgroup.freeze; until_true grep -q "frozen $1" /sys/fs/cgroup/sleep/cgroup.events; }
capture --profile --folded-output folded
echo $agent > /sys/fs/cgroup/sleep/cgroup.procs
frozen 1; online 0; online 1; frozen 0
# perf-agent looks for events that have ended once a second. So much CPU time is more than it needs to see them.
(ulimit -t 5; taskset 2 ./late 36 2000)
ended && grep -q 'CPU 1 was offline for a moment' log && grep -q ^late folded
say $? "a processor goes and comes unseen"
exit $status
