#!/bin/bash
# train PROGRAM on sequences of several documents: a batch of packed sequences has the losses of its documents, each in a
# sequence of its own. usage: packed_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
program=$1/tests/programs/packed.cpp

# shard FILE BOUNDARY: 12 documents of 19 tokens in llm.c's format, each token made of those before it, and one target more. Each
# begins with the token BOUNDARY, which in the program is 0.
shard() {
    printf '\x88\xd8\x34\x01\x01\0\0\0\xe5\0\0\0'
    head -c 1012 /dev/zero
    for i in $(seq 0 228); do
        token=$((2 + (i * i + i / 19) % 9))
        [ $((i % 19)) = 0 ] && token=$2
        printf "\\x$(printf %02x "$token")\\0"
    done
}
shard packed.bin 0 > packed.bin
shard joined.bin 4 > joined.bin

flags=(--vocab 11 --steps 40 --lr 0.02 --warmup 1 --order sequential --eval-every 0 --checkpoint-every 0 --threads 1 --seed 5
    --cache "$work/cache" --json)
losses() { sed -n 's/.*"event":"step".*"loss":\([0-9.e-]*\).*/\1/p' "$1/metrics.jsonl"; }
run() { # run NAME CONTEXT BATCH DATA FLAGS...
    local name=$1 context=$2 batch=$3 data=$4
    shift 4
    timeout 400 "$command" train "$program" "${flags[@]}" --context "$context" --batch "$batch" --data "$data" --val "$data" \
        --out "$name" "$@" > "$name.json" 2> "$name.err" || fail "$name: $(tail -3 "$name.err")"
    [ "$(losses "$name" | wc -l)" = 40 ] || fail "$name: $(losses "$name" | wc -l) losses, not 40"
}
# distance RUN RUN: the farthest that two losses of a step are apart.
distance() {
    paste <(losses "$1") <(losses "$2") | awk '{d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d} END {print most + 0}'
}
near() { # near RUN RUN: of additions in another order
    awk -v d="$(distance "$1" "$2")" 'BEGIN {exit !(d < 1e-5)}' || fail "$1 and $2: losses are up to $(distance "$1" "$2") apart"
}
apart() { # apart RUN RUN
    awk -v d="$(distance "$1" "$2")" 'BEGIN {exit !(d > 1e-3)}' || fail "$1 and $2: losses are at most $(distance "$1" "$2") apart"
}

# Twelve documents a batch: each alone, three and six in a sequence.
run alone 19 12 packed.bin
run three 57 4 packed.bin
run six 114 2 packed.bin
losses alone | awk 'NR == 1 {first = $1} {last = $1} END {exit !(last < 0.9 * first)}' || fail "nothing is learned: $(losses alone | tail -1)"
near alone three
near alone six
# Micro-batches of a step are parts of it.
run parts 57 1 packed.bin --accumulate 4
near alone parts
# With head norms, whose layers are more.
run alone_normed 19 12 packed.bin --head-norm true
run six_normed 114 2 packed.bin --head-norm true
near alone_normed six_normed
apart alone alone_normed
# Without boundaries a sequence is one document.
run alone_joined 19 12 joined.bin
run six_joined 114 2 joined.bin
apart alone_joined six_joined

[ "$failures" = 0 ] && echo "packed: alone and six in a sequence are $(distance alone six) apart, joined $(distance alone_joined six_joined)"
exit $((failures > 0))
