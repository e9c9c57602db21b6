#!/usr/bin/env bash
# Profiles usual programs, ten seconds each, and prints the table of docs/programs.md: rooted, named, and what perf-agent told.
#
#   bench/programs.sh                   # all, as root; the messages of each capture stay in the folder that is named at the end
#   bench/programs.sh nginx redis       # only rows whose name contains one of these words
#   PERF_AGENT=... SECONDS_EACH=5 bench/programs.sh
#
# A program that is missing is left out with a line on standard error. It needs: curl ab (apache2-utils) redis-benchmark
# (redis-tools) pgbench, and the programs themselves: java 17, node, python3 with flask for one row, PostgreSQL, nginx, redis-server,
# chromium-headless-shell, go, cargo, gcc, busybox-static.
set -uo pipefail
cd "$(dirname "$0")/.."

agent=$(realpath "${PERF_AGENT:-${CARGO_TARGET_DIR:-target}/release/perf-agent}")
seconds=${SECONDS_EACH:-10}
words=("$@")
work=$(mktemp -d "${TMPDIR:-/tmp}/perf-agent-programs.XXXXXX")
chmod 755 "$work"
children=()
end_children() {
    for pid in "${children[@]}"; do
        kill -KILL -- "-$pid" 2> /dev/null
    done
    children=()
    wait 2> /dev/null
}
trap end_children EXIT

wanted() {
    [ ${#words[@]} = 0 ] && return 0
    local word
    for word in "${words[@]}"; do
        case $1 in *"$word"*) return 0 ;; esac
    done
    return 1
}

# Starts a command in a process group of its own; its pid is in $started.
start() {
    setsid "$@" > "$work/started.log" 2>&1 < /dev/null &
    started=$!
    children+=("$started")
}

# row NAME TARGET...: one capture, one row. TARGET: options and operands of perf-agent that choose the target.
row() {
    local name=$1 log
    shift
    log=$work/$(echo "$name" | tr -c 'a-zA-Z0-9\n' -).log
    XDG_CACHE_HOME=${cache:-${XDG_CACHE_HOME:-$HOME/.cache}} "$agent" --profile --sample-rate 499 --duration "$seconds" --verbose --color never --profile-output "$log.pb.gz" "$@" > "$log.out" 2> "$log" < /dev/null
    local samples rooted named told
    samples=$(sed -n 's/^  samples  *//p' "$log")
    rooted=$(sed -n 's/^  rooted_pct  *//p' "$log")
    named=$(sed -n 's/^  symbolized_pct  *//p' "$log")
    told=$(sed -n 's/^advice: //p' "$log" | sed 's/|/\\|/g' | paste -sd'~' | sed 's/~/<br>/g')
    echo "| $name | ${samples:-none} | ${rooted:-none} | ${named:-none} | ${told:-nothing} |"
}

missing() {
    local command
    for command in "${@:2}"; do
        command -v "$command" > /dev/null || { echo "left out: $1: $command is missing" >&2; return 0; }
    done
    return 1
}

# The load for servers of HTTP at a port; waits until one answers.
load() {
    local n
    for ((n = 0; n < 100; n++)); do
        curl -s -o /dev/null "http://127.0.0.1:$1/" && break
        sleep 0.1
    done
    start bash -c "while :; do ab -q -c 8 -n 1000000 -t 1000 http://127.0.0.1:$1/; done"
}

cat > "$work/Work.java" << 'JAVA'
import java.util.*;

public class Work {
    static int compare(String a, String b) { return a.compareTo(b); }

    static long sorted(int n) {
        List<String> words = new ArrayList<>();
        for (int i = 0; i < n; i++) words.add("word " + (i * 7919L % 10007));
        words.sort(Work::compare);
        return words.get(0).length();
    }

    static long counted(int n) {
        Map<Integer, Integer> counts = new HashMap<>();
        for (int i = 0; i < n; i++) counts.merge(i * 31 % 1009, 1, Integer::sum);
        return counts.size();
    }

    public static void main(String[] words) {
        for (long x = 0;;) x += sorted(5000) + counted(100000);
    }
}
JAVA
cat > "$work/work.js" << 'JS'
function sorted(n) {
    const words = [];
    for (let i = 0; i < n; i++) words.push("word " + (i * 7919) % 10007);
    return words.sort().map((word) => word.length).length;
}
function encoded(n) {
    const text = JSON.stringify(Array.from({ length: n }, (_, i) => ({ id: i, name: "name " + i })));
    return JSON.parse(text).length + text.replace(/name (\d+)/g, "$1").length;
}
for (let x = 0; ; ) x += sorted(2000) + encoded(500);
JS
cat > "$work/app.py" << 'PY'
import flask

app = flask.Flask(__name__)

@app.route("/")
def index():
    return flask.render_template_string("{% for i in range(50) %}<p>{{ i }}</p>{% endfor %}")
PY
cat > "$work/server.go" << 'GO'
package main

import (
	"encoding/json"
	"net/http"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(r.Header)
	})
	_ = http.ListenAndServe("127.0.0.1:18080", nil)
}
GO
cat > "$work/page.html" << 'HTML'
<canvas id=c width=400 height=400></canvas><ul id=l></ul><script>
const canvas = document.getElementById("c").getContext("2d"), list = document.getElementById("l");
function draw() {
    for (let i = 0; i < 200; i++) {
        canvas.fillStyle = `hsl(${Math.random() * 360} 50% 50%)`;
        canvas.fillRect(Math.random() * 400, Math.random() * 400, 20, 20);
    }
    list.innerHTML = Array.from({ length: 100 }, (_, i) => `<li>${Math.random()} ${i}`).join("");
    document.body.offsetHeight;
    setTimeout(draw, 0);
}
draw();
</script>
HTML

echo "| program | samples | rooted, % | named, % | what was told |"
echo "|---|--:|--:|--:|---|"

for flag in "" -XX:+PreserveFramePointer; do
    name="java${flag:+ $flag}"
    if wanted "$name" && ! missing "$name" java javac; then
        javac -d "$work" "$work/Work.java" && start java $flag -cp "$work" Work
        sleep 3
        row "$name" --pid "$started"
        end_children
    fi
done

for flag in "" --perf-basic-prof; do
    name="node${flag:+ $flag}"
    if wanted "$name" && ! missing "$name" node; then
        start env -C "$work" node $flag "$work/work.js"
        sleep 2
        row "$name" --pid "$started"
        rm -f "/tmp/perf-$started.map"
        end_children
    fi
done

if wanted "python http.server" && ! missing "python http.server" /usr/bin/python3 ab curl; then
    start /usr/bin/python3 -m http.server --bind 127.0.0.1 --directory "$work" 18081
    server=$started
    load 18081
    row "python http.server" --pid "$server"
    end_children
fi

if wanted "python flask" && ! missing "python flask" flask ab curl; then
    start env PYTHONPATH="$work" flask --app app run --port 18082
    server=$started
    load 18082
    row "python flask" --pid "$server"
    end_children
fi

if wanted "postgres, pgbench" && ! missing "postgres, pgbench" pgbench runuser; then
    bin=$(ls -d /usr/lib/postgresql/*/bin 2> /dev/null | tail -n 1)
    mkdir "$work/pg" && chown postgres "$work/pg"
    if (cd / && runuser -u postgres -- "$bin/initdb" -D "$work/pg/data" > "$work/initdb.log" 2>&1); then
        start runuser -u postgres -- "$bin/postgres" -D "$work/pg/data" -k "$work/pg" -c listen_addresses=
        sleep 3
        server=$(head -n 1 "$work/pg/data/postmaster.pid")
        psql=(runuser -u postgres -- pgbench -h "$work/pg" postgres)
        (cd / && "${psql[@]}" -i -q > "$work/pgbench.log" 2>&1)
        start "${psql[@]}" -c 4 -T 1000
        sleep 1
        row "postgres, pgbench" --pid "$server"
        end_children
    fi
fi

if wanted "nginx, 2 workers" && ! missing "nginx, 2 workers" nginx ab curl; then
    printf 'daemon off; worker_processes 2; pid %s/nginx.pid; error_log %s/error.log; events {}\nhttp { access_log off; server { listen 127.0.0.1:18083; root %s; index page.html; } }\n' \
        "$work" "$work" "$work" > "$work/nginx.conf"
    start nginx -c "$work/nginx.conf"
    server=$started
    load 18083
    row "nginx, 2 workers" --pid "$server"
    end_children
fi

if wanted redis && ! missing redis redis-server redis-benchmark; then
    start redis-server --port 18084 --save "" --dir "$work"
    server=$started
    sleep 1
    start redis-benchmark -p 18084 -q -l -t get,set,lpush,zadd
    row redis --pid "$server"
    end_children
fi

if wanted "chromium headless" && ! missing "chromium headless" chromium-headless-shell; then
    start chromium-headless-shell --no-sandbox --disable-gpu --remote-debugging-port=18085 \
        --user-data-dir="$work/chromium" "file://$work/page.html"
    sleep 4
    row "chromium headless" --pid "$started"
    end_children
fi

if wanted "go http server" && ! missing "go http server" go ab curl; then
    GO111MODULE=off go build -o "$work/server" "$work/server.go" && start "$work/server"
    server=$started
    load 18080
    row "go http server" --pid "$server"
    end_children
fi

if wanted "cargo build" && ! missing "cargo build" cargo; then
    for state in cold warm; do
        build=(cargo build -q --offline -p perf-agent-profile --target-dir "$work/target-$state")
        cache=$work/cache row "cargo build, $state table cache" -- env -u CARGO_TARGET_DIR "${build[@]}"
    done
fi

if wanted "gcc, -a" && ! missing "gcc, -a" gcc; then
    start bash -c 'while :; do gcc -O2 -c -o /dev/null truth/programs/blocking.c; done'
    row "gcc, -a" -a
    end_children
fi

if wanted "busybox-static" && ! missing "busybox-static" busybox; then
    start busybox awk 'BEGIN { for (;;) { for (i = 0; i < 1000; i++) a[i] = sprintf("%d %s", i, a[i % 7]); n = length(a[3]) > 99 ? split("", a) : 0 } }'
    row "busybox-static awk" --pid "$started"
    end_children
    start busybox sha256sum /dev/zero
    row "busybox-static sha256sum" --pid "$started"
    end_children
fi

echo
echo "Messages and profiles: $work" >&2
