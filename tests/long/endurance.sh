#!/bin/bash
# 100,000 tiny steps: memory, descriptors and threads do not grow with them, and a run that is stopped, killed and resumed
# on the way ends with the same bits. usage: endurance.sh SOURCE BUILD [STEPS: 20000 at least]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
steps=${3:-100000}
tiny=(--layers 1 --heads 1 --width 8 --context 4 --batch 1 --threads 1 --warmup 5 --seed 3 --steps "$steps"
      --eval-every 0 --checkpoint-every $((steps / 20)) --json --cache "$work/cache")

# The state of the process at two of its steps: resident KiB, descriptors, threads. A pipe holds some hundred lines, so it
# is looked at while it is well before its end.
mkfifo lines
"$command" train "${tiny[@]}" --out whole > lines 2> err &
pid=$!
awk -v pid=$pid -v early=$((steps / 10)) -v last=$((steps / 20 * 19)) '
    function look(name,   line, rss, threads, files) {
        while ((getline line < ("/proc/" pid "/status")) > 0) {
            if (line ~ /^VmRSS:/) { split(line, part); rss = part[2] }
            if (line ~ /^Threads:/) { split(line, part); threads = part[2] }
        }
        close("/proc/" pid "/status")
        ("ls /proc/" pid "/fd | wc -l") | getline files
        close("ls /proc/" pid "/fd | wc -l")
        print name, rss, files + 0, threads
    }
    /"event":"step"/ && match($0, /"step":[0-9]+/) {
        step = substr($0, RSTART + 7, RLENGTH - 7)
        if (step == early) look("early")
        if (step == last) look("late")
    }' lines > looks
wait $pid || fail "train: $(tail -3 err)"
cat looks
read -r _ rss files threads <<< "$(grep early looks)"
read -r _ rss_late files_late threads_late <<< "$(grep late looks)"
[ -n "${threads_late-}" ] || fail "the process was not seen at both steps"
# What its plot and its times keep of a step is less than 100 bytes.
allowed=$((steps * 100 / 1024 + 1024))
[ $((rss_late - rss)) -lt $allowed ] || fail "memory grew from $rss to $rss_late KiB, more than $allowed"
[ "$files_late" = "$files" ] || fail "it has $files_late open files, $files before"
[ "$threads_late" = "$threads" ] || fail "it has $threads_late threads, $threads before"

# --- The same in parts -------------------------------------------------------------------------------
part() { # part SIGNAL STEP STATUS: trains on until STEP, then ends by the signal
    rm -f lines && mkfifo lines
    "$command" train "${tiny[@]}" --out parts --resume > lines 2> err &
    local pid=$! got
    awk -v at="\"step\":$2," -v end="kill -$1 $pid" '/"event":"step"/ && index($0, at) {system(end)}' lines
    wait $pid
    got=$?
    [ $got = "$3" ] || fail "after SIG$1 at step $2: exit status $got, expected $3: $(tail -1 err)"
}
part TERM $((steps / 3)) 130
part KILL $((steps / 2)) 137
part INT $((steps / 4 * 3)) 130
"$command" train "${tiny[@]}" --out parts --resume > /dev/null 2> err || fail "the last part: $(tail -3 err)"
without_times() { sed 's/"tok_s".*"lr"/"lr"/' "$1"; }
[ "$(wc -l < parts/metrics.jsonl)" = "$steps" ] || fail "$(wc -l < parts/metrics.jsonl) lines of metrics"
cmp <(without_times whole/metrics.jsonl) <(without_times parts/metrics.jsonl) || fail "other losses"
cmp whole/model.safetensors parts/model.safetensors || fail "other weights"

[ $failures = 0 ] && echo "$steps steps are as the first ones"
exit $((failures > 0))
