#!/bin/bash
# A run that is killed, at random moments and at system calls on its folder, or whose calls fail, and that goes on each
# time: with the losses and weights of one that was left alone, to the bit, and with a whole folder.
# usage: kills_test.sh SOURCE BUILD [KILLS [EVERY]]: how many at random (10); every how many calls (97)
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
kills=${3:-10} every=${4:-97}
faults=$2/tests/libcryolite_faults.so
seed=${CRYOLITE_SEED:-$(($(date +%s) % 32768))}
RANDOM=$seed
echo "CRYOLITE_SEED=$seed"

flags=(--layers 1 --heads 2 --width 32 --context 16 --batch 2 --warmup 5 --threads 1 --steps 40 --checkpoint-every 5
       --eval-every 20 --json)
train() { "$command" train "${flags[@]}" --cache "$work/cache" "$@"; }
without_times() { sed 's/"tok_s".*"lr"/"lr"/' "$1"; }

train --out whole > out 2> err || { fail "train: $(cat err)"; exit 1; }
begin=$EPOCHREALTIME
train --out again > out 2> err || fail "train: $(cat err)"
took=$((${EPOCHREALTIME/./} - ${begin/./}))  # microseconds, with all kernels in the cache

# go_on RUN WHAT: resumes, by the run's own settings where the run came to have any, and compares.
go_on() {
    local run=$1 what=$2
    if [ -e "$run/config.toml" ]; then
        "$command" train --out "$run" --resume --cache "$work/cache" > out 2> err || fail "$what: resume: $(tail -3 err)"
    elif [ -e "$run" ]; then
        fail "$what: the folder does not say whose it is: $(ls -A "$run")"
    else
        train --out "$run" > out 2> err || fail "$what: begin: $(tail -3 err)"
    fi
    cmp -s <(without_times whole/metrics.jsonl) <(without_times "$run/metrics.jsonl") || fail "$what: other losses"
    cmp -s whole/model.safetensors "$run/model.safetensors" || fail "$what: other weights"
    "$command" runs verify "$run" > out 2> err || fail "$what: $(cat out err)"
    rm -rf "$run" .tmp-"$run"-*
}

hit=0
for ((k = 1; k <= kills; k++)); do
    "$command" train "${flags[@]}" --cache "$work/cache" --out run > out 2> err &
    pid=$!
    after=$((RANDOM * took / 32768))
    sleep "$(printf '%d.%06d' $((after / 1000000)) $((after % 1000000)))"
    kill -KILL $pid 2> /dev/null
    wait $pid 2> /dev/null
    [ $? = 137 ] && hit=$((hit + 1))
    go_on run "killed after $after microseconds"
done
[ $hit -gt $((kills / 2)) ] || fail "of $kills kills only $hit met the run"

# faulty VARIABLE=VALUE...: trains with these faults of calls on the run's folder and what is prepared for it beside it.
faulty() {
    env LD_PRELOAD="$faults" CRYOLITE_FAULT_PATH="$work/*run*" "$@" "$command" train "${flags[@]}" --cache "$work/cache" \
        --out run > out 2> err &
    wait $! 2> /dev/null
}
faulty CRYOLITE_FAULT_TRACE="$work/trace" || fail "a trace of all calls: $(cat err)"
calls=$(wc -l < trace)
[ "$calls" -gt 500 ] || fail "only $calls calls on the run's folder"
rm -rf run
tried=0
for ((n = 1 + RANDOM % every; n <= calls; n += every)); do
    for fault in kill torn error; do
        faulty CRYOLITE_FAULT=$fault CRYOLITE_FAULT_AT=$n
        got=$?
        case $fault:$got in
            error:0 | error:1 | kill:137 | torn:137) ;;
            *) fail "$fault at call $n: exit status $got: $(tail -3 err)" ;;
        esac
        go_on run "$fault at call $n, $(sed -n ${n}p trace)"
        tried=$((tried + 1))
    done
done

[ $failures = 0 ] && echo "$kills kills, $hit of them in the run, and $tried faults of its $calls calls: nothing is lost"
exit $((failures > 0))
