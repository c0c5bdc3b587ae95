#!/bin/bash
# A search that begins with what Halide's autoschedulers make of each kernel, and a run that takes what it found.
# usage: scratch_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
model=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --cache "$work/cache" --threads 2)
tune() { timeout 800 "$command" tune gpt "${model[@]}" "$@" < /dev/null > out 2> err; }
train() { timeout 300 "$command" train gpt "${model[@]}" --steps 5 --json --eval-every 0 "$@" < /dev/null > out 2> err; }
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' out; }

tune --from-scratch --same-bits --for 10s
[ $? = 2 ] && grep -q -- "--from-scratch begins without: leave one of them out" err || fail "with --same-bits: $(cat err)"
tune --from-scratch --show
[ $? = 1 ] && grep -q "cryolite tune gpt --from-scratch --for 15m makes one" err || fail "--show of nothing: $(cat err)"

tune --from-scratch --for 20s || fail "the search: $(cat err)"
grep -q "^// found by cryolite tune gpt --from-scratch: a step takes" out || fail "what was found: $(cat out)"
grep -q "^beside the shipped schedule, timed in turn: .* ms a step by these lines, .* ms by the shipped ones, .* times as long" err || fail "beside the shipped one: $(cat err)"
tune --from-scratch --export my.schedule || fail "--export: $(cat err)"
[ "$(sed -n 2p my.schedule)$(sed -n 3p my.schedule)" = "s.clear();s.clear_loops();" ] || fail "its lines: $(cat my.schedule)"

tune --show
[ $? = 1 ] && grep -q "a search from scratch has a result too: add --from-scratch" err || fail "--show of the other: $(cat err)"

train --out plain || fail "a plain run: $(cat err)"
grep -q "tuned: " err && fail "a run takes what was found from scratch unasked"
losses > plain.losses
train --out scratch --schedule my.schedule || fail "a run with its lines: $(cat err)"
losses > scratch.losses
[ "$(wc -l < scratch.losses)" = 5 ] && paste plain.losses scratch.losses | awk '{ d = $1 - $2; if (d * d > 1e-8) exit 1 }' ||
    fail "other losses: $(paste plain.losses scratch.losses)"
timeout 100 "$command" explain gpt "${model[@]}" --schedule my.schedule > out 2> err || fail "explain: $(cat err)"
grep -qE "Adams2019|Mullapudi2016" out || fail "explain names no autoscheduler: $(tail -5 out)"
tune --from-scratch --forget && grep -q forgotten err || fail "--forget: $(cat err)"

[ $failures = 0 ] && echo "a search from scratch ends in lines that train"
exit $((failures > 0))
