#!/bin/bash
# A run that does not fit into memory as it was asked for is placed so that it does, says so and keeps that; one that
# cannot fit is refused before any work. CRYOLITE_MEMORY says what there is. usage: fit_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
# With a norm of all gradients and few rows, gradients need more bytes than updates in the backward pass leave.
sizes=(--layers 6 --heads 4 --width 384 --context 32 --batch 8 --clip 1 --threads 1 --cache "$work/cache")
train() { # train MEMORY OUT FLAGS...
    local memory=$1 out=$2
    shift 2
    CRYOLITE_MEMORY=$memory "$command" train gpt "${sizes[@]}" --out "$work/$out" --steps 2 --eval-batches 2 "$@" > "$work/lines" 2> "$work/err"
}
bundles() { ls "$work/cache/bundles" | wc -l; }
has() { grep -q -- "$1" "${2:-$work/err}" || fail "$3: no '$1' in: $(tail -5 "${2:-$work/err}")"; }
has_not() { ! grep -q -- "$1" "${2:-$work/err}" || fail "$3: '$1' in: $(tail -5 "${2:-$work/err}")"; }
megabytes() { sed -n "s/.*$1 \([0-9.]*\) MB.*/\1/p" "$work/err" | head -1; }

# What cannot fit is refused with who holds what, and nothing is compiled or made.
train 20MB none && fail "20 MB are enough"
[ $? = 2 ] || fail "refused with another status"
for words in "this run takes" "20.0 MB are allowed by CRYOLITE_MEMORY" "  weights " "  optimizer state " "  gradients " \
    "  activations " "  staging: loading, checkpoint buffers " "smaller --batch (with --accumulate" "--precision bf16"; do
    has "$words" "$work/err" refused
done
[ ! -e "$work/none" ] || fail "a refused run has left its folder"
[ ! -e "$work/cache/bundles" ] || [ "$(bundles)" = 0 ] || fail "a refused run was compiled"
whole=$(megabytes "this run takes") least=$(megabytes "it still takes")
echo "it takes $whole MB, at least $least MB"
middle() { awk -v w="$whole" -v l="$least" -v part="$1" 'BEGIN {printf "%.1fMB", l + part * (w - l)}'; }

# With all the memory there is, auto is none: one bundle.
train 1GB plain || fail "train: $(tail -3 "$work/err")"
has_not "chosen for memory" "$work/err" plain
has 'update = "auto"' "$work/plain/config.toml" plain
train 1GB none --recompute none || fail "--recompute none: $(tail -3 "$work/err")"
[ "$(bundles)" = 1 ] || fail "--recompute auto is another bundle than none where all fits"
# What was asked for is not chosen otherwise, but named.
train "$(middle 0.9)" separate --update separate --recompute none && fail "--update separate fits"
has "fits with --update backward" "$work/err" separate
# First updates move, then values are rematerialised.
train "$(middle 0.9)" fused || fail "less memory: $(tail -3 "$work/err")"
has "--update backward chosen for memory: the run takes" "$work/err" fused
has 'update = "backward"' "$work/fused/config.toml" fused
has 'recompute = "auto"' "$work/fused/config.toml" fused
train "$(middle 0.05)" again || fail "little memory: $(tail -3 "$work/err")"
has "--update backward --recompute [0-9]* --head-rows 0 chosen for memory" "$work/err" again
has 'recompute = "[0-9]*"' "$work/again/config.toml" again
# A resume takes what was chosen, whatever memory there is now.
made=$(bundles)
CRYOLITE_MEMORY=1GB "$command" train --out "$work/again" --cache "$work/cache" --resume --steps 4 2> "$work/err" ||
    fail "resume: $(tail -3 "$work/err")"
has_not "chosen for memory" "$work/err" resume
has "all from the cache" "$work/err" resume
has 'update = "backward"' "$work/again/config.toml" resume
[ "$(bundles)" = "$made" ] || fail "a resume was compiled anew"
# explain says it, and shows what does not fit.
explain() { CRYOLITE_MEMORY=$1 "$command" explain gpt "${sizes[@]}" > "$work/plan" 2> "$work/err"; }
explain "$(middle 0.05)" || fail "explain: $(tail -3 "$work/err")"
has "memory of a run: .* MB for all of a run; .* allowed by CRYOLITE_MEMORY" "$work/plan" explain
has "chosen for memory" "$work/plan" explain
explain 20MB || fail "explain of what does not fit: $(tail -3 "$work/err")"
has "this run takes $whole MB, and 20.0 MB are allowed" "$work/plan" explain
# A limit of the system does the same: the program is not asked where it has no memory itself.
(ulimit -v 60000 && "$command" train gpt "${sizes[@]}" --out "$work/limit" --steps 2 2> "$work/err") &&
    fail "60 MB of address space are enough"
has "address space (ulimit -v)" "$work/err" "ulimit -v"
has "  optimizer state " "$work/err" "ulimit -v"
# A temporary of a kernel beyond 32 bits is named as such, not in Halide's words.
CRYOLITE_MEMORY=1TB "$command" compile digits --target avx2 --classes 16777216 --precision bf16 --head-rows 0 --cache "$work/cache" \
    --out "$work/classes" 2> "$work/err" && fail "16,777,216 classes are computed at once"
has "a temporary of its loops would have 2 GiB or more" "$work/err" classes
has_not "Allocation size" "$work/err" classes
exit $((failures > 0))
