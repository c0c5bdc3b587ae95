#!/bin/bash
# The bytes that `explain` prints for a step are within 5 % of the measured peak of the process, less what a process takes beside its step.
# usage: memory_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

number() { sed -n 's/.*"'"$1"'":\([0-9]*\).*/\1/p' "$2" | tail -1; }

# What a process takes beside its step: its code, libraries and threads.
"$command" bench gpt --layers 1 --heads 1 --width 8 --context 8 --batch 1 --cache "$work/cache" --json --steps 3 > "$work/lines" 2> "$work/err" ||
    fail "a small step: $(tail -3 "$work/err")"
beside=$(number peak_rss_mb "$work/lines")
agree() { # agree FLAGS...: of a step large enough that the program itself is small beside it
    local step=(gpt --preset gpt2 --layers 6 --batch 1 --cache "$work/cache" --json "$@") said took
    "$command" explain "${step[@]}" > "$work/plan" 2> "$work/err" &&
        "$command" bench "${step[@]}" --steps 3 > "$work/lines" 2> "$work/err" || {
        fail "$*: $(tail -3 "$work/err")"
        return
    }
    said=$(awk '/"memory": {/ {on = 1; next} /}/ {on = 0} on {sub(/,$/, ""); sum += $2} END {printf "%.0f", sum / 1048576}' "$work/plan")
    took=$(($(number peak_rss_mb "$work/lines") - beside))
    echo "$*: predicted $said MiB, measured $took MiB and $beside beside it"
    awk -v said="$said" -v took="$took" 'BEGIN {exit !(said > 500 && took > .95 * said && took < 1.05 * said)}' ||
        fail "$*: the two differ by more than 5 %"
}

agree --context 64 --update separate
agree --context 64 --update backward --clip 1
agree --context 64 --update backward --precision bf16
agree --context 512 --clip 1
agree --context 512 --recompute 1350000000
grep -q ' again"' "$work/plan" || fail "1350000000 bytes are enough without values rematerialised"
# Work that a plan adds, values rematerialised and norms of factors, is counted where it is done and not in the step's FLOPs.
for flags in "" "--recompute 27MB" "--clip 1 --update backward"; do
    "$command" explain gpt --preset nano --cache "$work/cache" --json $flags > "$work/plan$flags" 2> "$work/err" ||
        fail "explain $flags: $(tail -3 "$work/err")"
    flops=$(sed -n 's/^  "flops": \(.*\),$/\1/p' "$work/plan$flags")
    echo "nano $flags: $flops FLOPs a step"
    [ -n "$flops" ] && [ "$flops" = "${same:=$flops}" ] || fail "nano $flags: $flops FLOPs a step, not $same"
done
# Values rematerialised change no bit, those that the chunks of the head read among them; neither do they to evaluate.
losses() { # losses FLAGS...
    "$command" train gpt --preset nano --cache "$work/cache" --out "$work/run $*" --steps 4 --head-rows 128 --json "$@" 2> "$work/err" |
        grep -o '"[a-z_]*loss":[0-9.]*' || fail "train $*: $(tail -3 "$work/err")"
}
for format in fp32 bf16; do
    stored=$(losses --precision $format)
    again=$(losses --precision $format --recompute 21MB)
    echo "$format, stored:" $stored
    "$command" explain gpt --preset nano --cache "$work/cache" --head-rows 128 --precision $format --recompute 21MB 2> "$work/err" | grep -q "ln_f again" ||
        fail "$format: 21MB does not ask for ln_f again"
    [ "$(echo "$stored" | wc -l)" -ge 5 ] && [ "$stored" = "$again" ] || fail "$format: losses of values rematerialised are" $again
done
worked() { # worked FILE NAME: FLOPs of the first kernel of this name
    grep -B6 "^        \"name\": \"$2\"" "$1" | sed -n 's/^ *"flops": \(.*\),$/\1/p' | head -1
}
awk -v n="$(worked "$work/plan--recompute 27MB" "ln_f again")" 'BEGIN {exit !(n > 0)}' || fail "a value rematerialised has no FLOPs"
awk -v n="$(worked "$work/plan--clip 1 --update backward" "norm(wte.weight)")" 'BEGIN {exit !(n > 0)}' || fail "a norm of factors has no FLOPs"
exit $((failures > 0))
