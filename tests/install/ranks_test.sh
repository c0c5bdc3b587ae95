#!/bin/bash
# A rank of mpirun that is stopped or killed: the run ends soon, names it, and goes on from its last checkpoint with the
# same bits; ranks that all stood still go on. usage: ranks_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

if ! [ -e "$2/bin/libcryolite_mpi.so" ] || ! command -v mpirun > /dev/null; then
    echo "skipped: there is no MPI here: install libopenmpi-dev and openmpi-bin"
    exit 0
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
tiny=(--layers 1 --heads 2 --width 32 --context 16 --batch 4 --threads 1 --eval-every 0 --checkpoint-every 20
    --steps 2000 --patience 2s --cache "$work/cache" --json)
mpi=(mpirun --oversubscribe -n 2)
losses() { sed -n 's/.*"event":"step",\(.*"loss":[0-9.e-]*\).*/\1/p' "$@" | sort -u -t: -k2n; }

"$command" train "${tiny[@]}" --workers 2 --out whole > whole.json 2> err || fail "two workers: $(cat err)"

process_of() { # process_of MPIRUN RANK
    local p
    for p in $(pgrep -P "$1"); do
        if tr '\0' '\n' < "/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$2"; then echo "$p"; fi
    done
}
begin() { # begin RUN: in the background, until it has a checkpoint
    "${mpi[@]}" "$command" train "${tiny[@]}" --out "$1" > "$1.json" 2> "$1.err" &
    run=$!
    local k=0
    # Old checkpoints go: waiting for one by its name could miss it.
    while [ -z "$(ls "$1/checkpoints" 2> /dev/null | grep -E '^step-[0-9]+$')" ] && [ $((k++)) -lt 1000 ]; do sleep 0.02; done
}
ends() { # ends RUN STATUS WORDS: within half a minute, on a machine that does something else
    local t0=$SECONDS got
    ( sleep 60; kill -KILL $run 2> /dev/null ) &
    local guard=$!
    wait $run
    got=$?
    kill $guard 2> /dev/null
    [ $got = "$2" ] || fail "$1: exit status $got, expected $2: $(tail -3 "$1.err")"
    [ $((SECONDS - t0)) -lt 30 ] || fail "$1 ended after $((SECONDS - t0)) s"
    grep -qE -- "$3" "$1.err" || fail "$1: said '$(cat "$1.err")', expected '$3'"
}

for rank in 0 1; do
    begin stopped$rank
    victim=$(process_of $run $rank)
    kill -STOP "$victim"
    ends stopped$rank 1 "cryolite.*: rank $rank \(process $victim on .*\) has given no sign of life for 2 s"
    grep -q "the last checkpoint in stopped$rank is of step .*mpirun -n 2 .*cryolite.* train --out stopped$rank --resume" stopped$rank.err ||
        fail "stopped$rank: no word of its checkpoint: $(cat stopped$rank.err)"
done
begin killed
kill -KILL "$(process_of $run 1)"
ends killed 137 "process rank 1 .* exited on signal 9"

# It goes on with the bits of a run that was not broken.
timeout 300 "${mpi[@]}" "$command" train "${tiny[@]}" --out stopped1 --resume > rest.json 2> err || fail "resume: $(cat err)"
cmp <(losses whole.json) <(losses stopped1.json rest.json) || fail "a run that goes on after a rank was stopped: other losses"
cmp -s whole/model.safetensors stopped1/model.safetensors || fail "a run that goes on after a rank was stopped: other weights"

# Nobody takes the others for lost who stood still himself.
begin paused
all="$(process_of $run 0) $(process_of $run 1)"
kill -STOP $all
sleep 4
kill -CONT $all
wait $run || fail "ranks that all stood still: $(cat paused.err)"
cmp <(losses whole.json) <(losses paused.json) || fail "ranks that all stood still: other losses"

[ $failures = 0 ] && echo "ranks_test: all fine"
exit $((failures > 0))
