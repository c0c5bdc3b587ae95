#!/bin/bash
# train --restarts: a run that is killed or loses a rank goes on from its last checkpoint, with the bits of one that was not
# broken; with fewer workers where there are no more; and stops when it is told to. usage: restarts_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

tiny=(--layers 1 --heads 2 --width 32 --context 16 --batch 4 --threads 1 --eval-every 0 --checkpoint-every 20
    --steps 2000 --patience 2s --cache "$work/cache" --json)
losses() { sed -n 's/.*"event":"step",\(.*"loss":[0-9.e-]*\).*/\1/p' "$@" | sort -u -t: -k2n; }
"$command" train "${tiny[@]}" --workers 2 --out whole > whole.json 2> err || fail "two workers: $(cat err)"

begin() { # begin RUN FLAGS...: in the background, until it has a checkpoint
    local name=$1
    shift
    "$command" train "${tiny[@]}" --out "$name" "$@" > "$name.json" 2> "$name.err" &
    run=$!
    wait_for "$name" 20
}
wait_for() { # wait_for RUN STEP: a checkpoint of that step or later
    local k=0
    while [ $((k++)) -lt 3000 ]; do
        [ "$(ls "$1/checkpoints" 2> /dev/null | grep -c -E "step-[0-9]{6}$" )" != 0 ] &&
            [ "$(ls "$1/checkpoints" | tail -1 | tr -dc 0-9)" -ge "$2" ] && return
        sleep 0.02
    done
}
ends() { # ends RUN STATUS WORDS
    wait $run
    local got=$?
    [ $got = "$2" ] || fail "$1: exit status $got, expected $2: $(tail -3 "$1.err")"
    grep -qF -- "$3" "$1.err" || fail "$1: said '$(cat "$1.err")', expected '$3'"
}
unbroken() { # unbroken RUN: it has the bits of the whole one
    cmp <(losses whole.json) <(losses "$1.json") || fail "$1: other losses than those of an unbroken run"
    cmp -s whole/model.safetensors "$1/model.safetensors" || fail "$1: other weights than those of an unbroken run"
}
refused() { # refused WORDS FLAGS...
    local words=$1 got
    shift
    "$command" train "${tiny[@]}" "$@" > out 2> err
    got=$?
    [ $got = 2 ] || fail "$*: exit status $got, expected 2"
    grep -qF -- "$words" err || fail "$*: said '$(cat err)', expected '$words'"
}

begin killed --workers 2 --restarts 1
kill -KILL "$(pgrep -P $run)"
ends killed 0 "the run was ended by a signal (Killed); restart 1 of 1, from step "
grep -q "with 2 workers" killed.err || fail "killed: other workers: $(cat killed.err)"
unbroken killed

begin spent --workers 2 --restarts 0 --launch "env WORKERS={workers}"
kill -KILL "$(pgrep -P $run)"
ends spent 1 "no restart is left of --restarts 0"

begin told --workers 2 --restarts 5
kill -TERM $run
ends told 130 "interrupted after step"
refused "--layers is \"0\"" --layers 0 --restarts 3
refused "a command with {workers} in place of their number" --restarts 3 --launch mpirun
refused "is not empty" --restarts 3 --out whole

if ! [ -e "$2/bin/libcryolite_mpi.so" ] || ! command -v mpirun > /dev/null; then
    echo "not tested here, as there is no MPI: processes of mpirun"
    exit $((failures > 0))
fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
process_of() { # process_of RANK: of the run's mpirun
    local p
    for p in $(pgrep -P "$(pgrep -P $run)"); do
        if tr '\0' '\n' < "/proc/$p/environ" | grep -qx "OMPI_COMM_WORLD_RANK=$1"; then echo "$p"; fi
    done
}
begin ranks --workers 2 --restarts 1 --launch "mpirun --oversubscribe -n {workers}"
kill -STOP "$(process_of 1)"
ends ranks 0 "the run ended with status 1; restart 1 of 1, from step "
grep -q "rank 1 .* has given no sign of life" ranks.err || fail "ranks: the rank is not named: $(cat ranks.err)"
unbroken ranks

# A host with room for one worker: mpirun itself refuses more. Then for two again.
echo "localhost slots=1" > hosts
begin fewer --workers 2 --restarts 4 --launch "mpirun --hostfile hosts -n {workers}"
grep -q "restart 2 of 4, from step 0 with 1 worker$" fewer.err || fail "fewer: not with the worker that is left: $(cat fewer.err)"
echo "localhost slots=2" > hosts
kill -KILL "$(process_of 0)"
ends fewer 0 "with 2 workers"
[ "$(losses fewer.json | wc -l)" = 2000 ] || fail "fewer: not all steps were taken"

[ $failures = 0 ] && echo "restarts_test: all fine"
exit $((failures > 0))
