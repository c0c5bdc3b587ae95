#!/bin/bash
# Runs whose numbers are not finite any more: withheld updates and where they end, the first value that had it, and how to
# go on. usage: not_finite_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 100 --threads 1 --eval-every 0 --checkpoint-every 10)
train() { "$command" train "${tiny[@]}" --cache "$work/cache" "$@"; }
resume() { "$command" train --resume --threads 1 --cache "$work/cache" "$@"; }
ended() { # ended STATUS EXPECTED WHAT
    [ "$1" = "$2" ] || fail "$3: exit status $1, expected $2: $(tail -1 err)"
}
says() { grep -qE -- "$1" err || fail "expected '$1': $(tail -2 err)"; }
withheld() { sed 's/.*"withheld":\([0-9]*\)}/\1/' "$1" | tail -"$2" | tr '\n' ' '; }

# --- bf16: a gradient that is not finite withholds its update ----------------------------------------
bf16=(--precision bf16 --lr 100 --steps 400)
train "${bf16[@]}" --json --out lost > lost.json 2> err
ended $? 1 "a rate of 100"
says "updates of steps [0-9]+ to [0-9]+ were withheld, as gradients were not finite: 50 in a row \(--give-up-after 50\)"
says "The first value that is not finite is (inf|-inf|nan), at element [0-9]+ of .*, which '[a-z0-9._()+ ]+' of the [a-z]+ pass"
last=$(grep -c '"event":"step"' lost.json)
good=$(ls lost/checkpoints | tail -1)
[ "$(withheld lost.json 51)" = "$(seq -s ' ' 0 50) " ] || fail "withheld updates are not counted: $(withheld lost.json 51)"
[ "$(tail -1 lost/metrics.jsonl)" = "$(tail -1 lost.json)" ] || fail "metrics.jsonl has another last line"
says "the last good checkpoint is lost/checkpoints/$good\. To go on .*--out lost --resume --lr"
[ "$((10#${good#step-}))" -le $((last - 50)) ] || fail "the checkpoint $good is of withheld updates ($last)"
resume --out lost --lr 1e-3 --steps $((last + 10)) > out 2> err
ended $? 0 "another rate"
says "going on after step $((10#${good#step-})) from"
says "changed from here on: .*--lr 100 -> 0.001"

# What is written while updates are withheld pushes out no checkpoint, and a resume goes on counting.
train "${bf16[@]}" --steps $((last - 20)) --keep 1 --out parts > out 2> err
ended $? 0 "30 withheld updates"
says "warning: the last 30 updates were withheld"
[ "$(ls parts/checkpoints | tr '\n' ' ')" = "$good step-$(printf %06d $((last - 20))) " ] || fail "checkpoints: $(ls parts/checkpoints)"
resume --out parts --steps 400 > out 2> err
ended $? 1 "the withheld updates of both parts"
says "updates of steps $((last - 49)) to $last were withheld.*is parts/checkpoints/$good\. .* remove parts/checkpoints/step-"
resume --out parts --steps $((last + 20)) --give-up-after 0 --json > parts.json 2> err
ended $? 0 "--give-up-after 0"
[ "$(withheld parts/metrics.jsonl 1)" = "70 " ] || fail "--give-up-after 0: $(withheld parts/metrics.jsonl 1)"

# --- fp16: the scale of the loss ---------------------------------------------------------------------
# One target is so large that its adjoint overflows: the scale falls from 1 to 1/2, where it then stays.
awk 'BEGIN { for (r = 0; r < 400; r++) { for (c = 0; c < 8; c++) printf "%g,", (r * 7 + c * 3) % 10 / 100; print r ? 0.5 : 1e12 } }' > spike.csv
program=$2/tests/scaled
scaled() { "$command" train "$program" --data spike.csv --val spike.csv --threads 1 --precision fp16 \
    --eval-every 0 --checkpoint-every 2 --cache "$work/cache" --loss-scale-interval 1000 --give-up-after 5 "$@"; }
scaled --loss-scale 1 --steps 80 --out low > out 2> err
ended $? 1 "a scale below 1"
says "the scale of the loss is 0.5 and was below 1 for 5 steps in a row, as gradients were not finite \(--give-up-after 5\)"
says "the last good checkpoint is low/checkpoints/step-"
scaled --loss-scale 1 --steps 80 --resume --out low > out 2> err
ended $? 1 "the steps of both parts"
says "was below 1 for 5 steps in a row"
scaled --loss-scale 2 --steps 50 --json --out high > high.json 2> err
ended $? 0 "a scale of 1"
[ "$(grep -c '"withheld":1,"loss_scale":1}' high.json)" = 1 ] || fail "a step was not withheld: $(head -2 high.json)"
[ "$(grep -c '"withheld":0,"loss_scale":[12]}' high.json)" = 49 ] || fail "49 updates were done: $(tail -2 high.json)"
"$command" explain "$program" --precision fp16 --cache "$work/cache" > out 2> err || fail "explain: $(cat err)"
grep -qE "^  first.weight +float16 +products of 'first' read it$" out || fail "explain does not say formats: $(cat out)"
"$command" explain "$program" --precision fp16 --cache "$work/cache" --json 2> err |
    grep -qE '"name": *"first.weight"' || fail "explain --json: $(cat err)"
scaled --finite-check off --steps 3 --json --out off > off.json 2> err
grep -q loss_scale off.json && fail "--finite-check off scales the loss: $(head -2 off.json)"
scaled --finite-check off --loss-scale 2 --steps 1 --out bad > out 2> err
ended $? 2 "a scale that there is not"
says "are for --precision fp16, not for fp16 with --finite-check off"
scaled --precision fp32 --finite-check off --steps 1 --out bad > out 2> err
ended $? 2 "--finite-check in fp32"
says "--finite-check off is for --precision bf16 or fp16, not for fp32"
for bad in 0 -2 nan 3 0.5 inf; do
    scaled --loss-scale=$bad --steps 1 --out bad > out 2> err
    ended $? 2 "--loss-scale $bad"
    says "loss-scale is \"$bad\", expected a power of two from 1 to 16777216"
done
train --loss-scale 1024 --steps 1 --out bad > out 2> err
ended $? 2 "--loss-scale in fp32"
says "are for --precision fp16, not for fp32"

# --- fp32: nothing is withheld -----------------------------------------------------------------------
train --lr 1e30 --warmup 1 --min-lr 0 --clip 0 --steps 100 --out burst > out 2> err
ended $? 1 "a rate of 1e30"
says "^cryolite: the loss is (nan|infinite) at step [0-9]+\. The first value that is not finite is (inf|-inf|nan), at element"
says "no checkpoint was written before"
train --steps 20 --out later > out 2> err
resume --out later --lr 1e25 --steps 60 > out 2> err
ended $? 1 "a rate of 1e25 from step 20 on"
says "looking for the first value that is not finite: steps? 21"
says "The first value .*, in step 2[0-9]; the last good checkpoint is later/checkpoints/step-000020\."
resume --out later --lr 1e-3 --steps 30 > out 2> err
ended $? 0 "a lower rate after that"

[ $failures = 0 ] && echo "not_finite_test: all fine"
exit $((failures > 0))
