#!/bin/bash
# Several workers by the command, as threads and as processes of mpirun: the same losses, one voice, runs that go on.
# usage: workers_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

tiny=(--layers 1 --heads 2 --width 64 --context 8 --batch 4 --warmup 5 --threads 1 --steps 60 --eval-every 30
    --checkpoint-every 20 --cache "$work/cache" --json)
train() { timeout 300 "$command" train "${tiny[@]}" "$@"; }
losses() { sed -n 's/.*"event":"\(step\|eval\)",\(.*loss":[0-9.e-]*\).*/\2/p' "$1" | sed 's/"tok_s.*//'; }
near() { # near A B: every loss within 1e-5 of the other file's
    paste -d' ' <(losses "$1" | sed 's/.*loss"://') <(losses "$2" | sed 's/.*loss"://') | LC_ALL=C awk -v what="$1 and $2" '
        { d = $1 - $2; if (d < 0) d = -d; if (NF != 2 || d > 1e-5 * $1) { print what ": " $0; bad = 1 } }
        END { if (NR != 62) print what ": " NR " losses"; exit bad || NR != 62 }' || fail "$1 and $2 differ"
}
same_files() { # same_files A B: the checkpoints of step 60 have the same bits
    for file in model optimizer; do
        cmp -s "$1/checkpoints/step-000060/$file.safetensors" "$2/checkpoints/step-000060/$file.safetensors" ||
            fail "$1 and $2: other bits in $file.safetensors"
    done
}
refused() { # refused STATUS WORDS COMMAND...
    local status=$1 words=$2 got
    shift 2
    timeout 120 "$@" > out 2> err
    got=$?
    [ $got = "$status" ] || fail "$*: exit status $got, expected $status: $(tail -1 err)"
    grep -qF -- "$words" err || fail "$*: said '$(tail -3 err)', expected '$words'"
}

train --out one > one.json 2> err || fail "one worker: $(cat err)"
train --out two --workers 2 > two.json 2> err || fail "two workers: $(cat err)"
grep -q "2 workers of 1 thread" err || fail "two workers are not named: $(cat err)"
train --out four --workers 4 > four.json 2> err || fail "four workers: $(cat err)"
near one.json two.json
near one.json four.json

# A run goes on with the same bits, and on another number of workers.
cut() { # cut RUN AS: the run as it was after step 40
    cp -r "$1" "$2" && rm -r "$2/checkpoints/step-000060"
}
cut two part
train --out part --workers 2 --resume > part.json 2> err || fail "resume: $(cat err)"
same_files two part
for workers in 1 4; do
    cut two moved$workers
    train --out moved$workers --workers $workers --resume > part.json 2> err || fail "resume on $workers workers: $(cat err)"
    { head -42 two.json; grep -v compile part.json; } > moved.json  # compile, 40 steps, one evaluation
    near two.json moved.json
done

# With --deterministic they have the same bits, evaluations too.
exact=(--deterministic --clip 0.5 --steps 30 --checkpoint-every 30 --eval-every 15)
exactly() { # exactly A B: the same losses and the same checkpoint
    cmp <(losses "$1.json") <(losses "$2.json") || fail "--deterministic: $1 and $2 have other losses"
    for file in model optimizer; do
        cmp -s "$1/checkpoints/step-000030/$file.safetensors" "$2/checkpoints/step-000030/$file.safetensors" ||
            fail "--deterministic: $1 and $2 have other bits in $file.safetensors"
    done
}
for workers in 1 2 4; do
    train "${exact[@]}" --workers $workers --out exact$workers > exact$workers.json 2> err || fail "--deterministic: $(cat err)"
    exactly exact1 exact$workers
done
[ "$(losses exact1.json | wc -l)" = 32 ] || fail "--deterministic: not 30 steps and 2 evaluations"
refused 2 '--deterministic cuts --batch 6 into 2 parts' "$command" train "${tiny[@]}" --batch 6 --deterministic --workers 3

"$command" bench "${tiny[@]}" --workers 2 --steps 3 > bench.json 2> err || fail "bench --workers 2: $(cat err)"
[ "$(grep -c '"event":"step"' bench.json)" = 3 ] || fail "bench --workers 2 has not 3 steps"
"$command" bench "${tiny[@]}" --workers 2 --steps 3 --clip 1 --profile > /dev/null 2> err || fail "bench --profile: $(cat err)"
grep -q "sum of workers" err || fail "the profile lacks the sums of workers"
"$command" explain --layers 1 --heads 2 --width 64 --context 8 --batch 4 --workers 2 --cache "$work/cache" > plan 2> err || fail "explain: $(cat err)"
grep -q "in shards, by workers (the gradients of 2 workers are added first" plan || fail "explain does not say how updates are placed"
refused 2 '--batch 4 is not divisible by --workers 3' "$command" train "${tiny[@]}" --workers 3

if ! [ -e "$2/bin/libcryolite_mpi.so" ] || ! command -v mpirun > /dev/null; then
    echo "not tested here, as there is no MPI: processes of mpirun"
else
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    mpi=(mpirun --oversubscribe -n 2 "$command")
    timeout 300 "${mpi[@]}" train "${tiny[@]}" --out ranks > ranks.json 2> err || fail "mpirun: $(cat err)"
    [ "$(grep -c '"event":"done"' ranks.json)" = 1 ] || fail "not rank 0 alone prints: $(grep -c done ranks.json) done events"
    grep -q "2 processes of 1 thread" err || fail "processes are not named: $(cat err)"
    cmp <(losses two.json) <(losses ranks.json) || fail "two processes and two workers: other bits"
    same_files two ranks
    timeout 300 "${mpi[@]}" train "${tiny[@]}" "${exact[@]}" --out exact > exact.json 2> err || fail "mpirun --deterministic: $(cat err)"
    exactly exact1 exact
    # From processes to threads and back.
    cut two to_ranks && cut ranks to_threads
    timeout 300 "${mpi[@]}" train "${tiny[@]}" --out to_ranks --resume > /dev/null 2> err || fail "mpirun resumes a run of threads: $(cat err)"
    train --out to_threads --workers 2 --resume > /dev/null 2> err || fail "threads resume a run of mpirun: $(cat err)"
    same_files two to_ranks
    same_files two to_threads
    for update in forward separate; do
        for precision in fp32 bf16; do
            flags=("${tiny[@]}" --steps 6 --accumulate 2 --update $update --precision $precision)
            timeout 300 "${mpi[@]}" train "${flags[@]}" --out "r$update$precision" > ranks.json 2> err || fail "mpirun --update $update: $(cat err)"
            "$command" train "${flags[@]}" --workers 2 --out "w$update$precision" > two.json 2> err || fail "--update $update: $(cat err)"
            cmp <(losses two.json) <(losses ranks.json) || fail "--update $update --precision $precision: other bits"
            cmp -s {r,w}$update$precision/checkpoints/step-000006/optimizer.safetensors || fail "--update $update --precision $precision: other state"
        done
    done
    refused 2 '--batch 3 is not divisible by the 2 processes of mpirun' "${mpi[@]}" train "${tiny[@]}" --batch 3
    refused 2 '--workers 2 under mpirun' "${mpi[@]}" train "${tiny[@]}" --workers 2
    cp "$command" alone  # MPI is a library beside the command
    refused 2 'but Cryolite was built without MPI' mpirun --oversubscribe -n 2 ./alone train "${tiny[@]}"
fi

[ $failures = 0 ] && echo "workers_test: all fine"
exit $((failures > 0))
