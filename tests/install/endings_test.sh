#!/bin/bash
# How runs end where nobody listens, where a terminal closes, and where a file may not grow: with what they trained.
# usage: endings_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 5 --threads 1 --cache "$work/cache")
train() { "$command" train "${tiny[@]}" "$@"; }
ended() { # ended STATUS EXPECTED WHAT
    [ "$1" = "$2" ] || fail "$3: exit status $1, expected $2: $(tail -1 err)"
}
has_checkpoint() { # has_checkpoint RUN STEP
    [ -s "$1/checkpoints/step-$(printf %06d "$2")/manifest.json" ] || fail "$1 has no checkpoint of step $2: $(ls "$1/checkpoints")"
}

# --- Nobody listens --------------------------------------------------------------------------------
train --steps 40 --out heard > out 2> err
ended $? 0 "a run that is heard"
train --steps 40 --out full > out 2> /dev/full
ended $? 0 "stderr on a full disk"
train --steps 40 --out closed > out 2>&-
ended $? 0 "a closed stderr"
train --steps 40 --out gone > out 2> >(:)
ended $? 0 "a stderr whose reader went away"
train --steps 40 --out alone <&- >&- 2>&-
ended $? 0 "no stream at all"
for run in full closed gone alone; do
    has_checkpoint $run 40
    cmp -s heard/model.safetensors $run/model.safetensors || fail "$run: other weights"
    [ "$(grep -c '^{"event":"[a-z]*",.*}$' $run/metrics.jsonl)" = "$(wc -l < heard/metrics.jsonl)" ] ||
        fail "$run: other lines in metrics.jsonl: $(head -3 $run/metrics.jsonl)"
done
# Events of --json: a reader that is no more ends the run, a full disk does not.
train --steps 40 --json --out full.json > /dev/full 2> err
ended $? 0 "--json on a full disk"
[ "$(grep -c "No space left on device; the run goes on" err)" = 1 ] || fail "--json on a full disk is not said once: $(cat err)"
has_checkpoint full.json 40
train --steps 1000000 --json --out closed.json >&- 2> err
ended $? 130 "--json with a closed stdout"
has_checkpoint closed.json 0
train --steps 1000000 --json --out gone.json 2> err | head -3 > out
ended "${PIPESTATUS[0]}" 130 "--json whose reader goes away"
[ -n "$(ls gone.json/checkpoints)" ] || fail "--json whose reader goes away leaves no checkpoint"
"$command" cache ls --cache cache > /dev/full 2> err
ended $? 1 "cache ls on a full disk"

# --- A terminal closes, and other signals ----------------------------------------------------------
# stop SIGNAL STATUS RUN ARGUMENTS...: the run gets a signal twice, as SIGHUP from a terminal and its shell.
stop() {
    local signal=$1 status=$2 run=$3 k=0
    shift 3
    "$command" train "${tiny[@]}" --checkpoint-every 20 --out "$run" "$@" > out 2> err &
    local pid=$!
    while [ "$(ls "$run/checkpoints" 2> /dev/null | wc -l)" -lt 2 ] && [ $((k++)) -lt 3000 ]; do sleep 0.01; done
    kill -$signal $pid && kill -$signal $pid
    wait $pid 2> /dev/null
    ended $? "$status" "$run"
}
stop HUP 130 hung --steps 1000000
grep -q "interrupted after step [0-9]*; a checkpoint was written" err || fail "after SIGHUP: $(tail -1 err)"
trap '' HUP  # as nohup does
stop HUP 0 ignored --steps 200
trap - HUP
has_checkpoint ignored 200
for signal in INT TERM; do # as from timeout, which sends its signal twice
    stop $signal 130 twice.$signal --steps 1000000
    grep -q "interrupted after step [0-9]*; a checkpoint was written" err || fail "after two SIG$signal at once: $(tail -1 err)"
done
# A second one later ends a step that takes minutes.
"$command" train "${tiny[@]}" --accumulate 1000000 --steps 2 --eval-every 0 --out forced > out 2> err &
pid=$! k=0
while ! grep -q "^run: " err && [ $((k++)) -lt 3000 ]; do sleep 0.01; done
kill -TERM $pid && sleep 0.7 && kill -TERM $pid
wait $pid 2> /dev/null
ended $? 143 "a second SIGTERM"

# --- A file may not grow ---------------------------------------------------------------------------
(ulimit -f 8 && train --steps 5 --out limited > out 2> err)
ended $? 1 "a limit of 8 kB for files"
grep -q "model.safetensors: File too large; .*ulimit -f" err || fail "a limit of 8 kB for files: said $(tail -2 err)"
(ulimit -f 64 && train --steps 1000000 --checkpoint-every 0 --eval-every 0 --out limited.lines > out 2> err)
ended $? 1 "a limit of 64 kB for files"
grep -q "metrics.jsonl: File too large" err || fail "a limit of 64 kB for files: said $(tail -2 err)"
[ -n "$(ls limited.lines/checkpoints)" ] || fail "steps whose lines cannot be written are lost"

[ $failures = 0 ] && echo "endings_test: all fine"
exit $((failures > 0))
