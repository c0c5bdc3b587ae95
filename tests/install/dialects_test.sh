#!/bin/bash
# --dialect: forced, measured once and remembered, refused where it is not built. usage: dialects_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
build=$2
small="--layers 1 --width 64 --heads 2 --context 32 --batch 2"

# Where it is not built, as if it were not: a command without the folder of dialects beside it.
mkdir -p elsewhere/bin && cp "$command" elsewhere/bin/ && ln -s "$build"/{generators,user_program.json} elsewhere/
elsewhere/bin/cryolite bench $small --dialect onednn --cache "$work/cache" > out 2> err
[ $? = 2 ] && grep -q "this build does not have it; install the package 'libdnnl-dev'" err || fail "not built: $(cat err)"
elsewhere/bin/cryolite explain gpt $small --dialect auto --cache "$work/cache" > out 2> err || fail "auto without: $(tail -1 err)"
grep -q "halide: onednn is not built here" out || fail "auto without: $(grep onednn out | head -2)"
"$command" bench $small --dialect onednm > out 2> err
[ $? = 2 ] && grep -q "expected auto or halide or cublaslt or onednn" err || fail "misspelt: $(cat err)"

if [ ! -e "$build/dialects/libonednn.so" ]; then
    echo "skipped: onednn is not built here; install the package 'libdnnl-dev'"
    exit $((failures > 0))
fi
explain() { "$command" explain gpt $small --cache "$work/cache" "$@" > out 2> err || fail "explain $*: $(tail -1 err)"; }
explain
grep -q onednn out && fail "the default names another dialect: $(grep onednn out | head -1)"
explain --dialect onednn
grep -q "onednn: --dialect onednn" out || fail "explain does not say what is forced"
grep -q "separate (--dialect onednn: onednn computes the gradient" out || fail "explain does not say where updates are"
explain --dialect onednn --precision bf16
grep -q "halide: onednn computes this product in float32 only" out || fail "explain does not say why bf16 is Halide's"
explain --dialect onednn --json
grep -q '"dialect": "onednn"' out && grep -q '"why": "--dialect onednn"' out || fail "explain --json does not say it"

# Measured at the first start, remembered by the second, other threads measured apart.
records() { "$command" cache ls --json --cache "$work/cache" | sed 's/.*"tuning":{"count":\([0-9]*\)}.*/\1/'; }
explain --dialect auto --threads 1
grep -q "products measured, kept in" err || fail "auto measures nothing"
grep -qE "(halide|onednn): measured: halide [0-9.]+ ms, onednn [0-9.]+ ms" out || fail "explain does not say what was measured"
first=$(records) && [ "$first" -gt 10 ] || fail "$first records"
grep "measured:" out > first
explain --dialect auto --threads 1
grep -q "products measured" err && fail "a second start measures again"
grep "measured:" out | cmp -s - first || fail "a second start says something else"
"$command" train $small --dialect auto --threads 1 --steps 3 --eval-every 0 --out run --cache "$work/cache" > out 2> err || fail "train: $(tail -1 err)"
grep -q 'dialect = "auto"' run/config.toml || fail "the run's file does not name the dialect"

# Damaged records: a word, and begun again.
"$command" cache verify --cache "$work/cache" > out 2> err || fail "verify: $(cat out)"
echo "not a database, and longer than its header: 0123456789012345678901234567890123456789012345678901234567890123456789" > cache/tuning.sqlite
explain --dialect auto --threads 1
grep -q "tuning.sqlite is damaged" err && grep -q "products measured" err || fail "damaged records: $(cat err)"
[ "$(records)" = "$first" ] || fail "damaged records were not made again"
echo "not a database, and longer than its header: 0123456789012345678901234567890123456789012345678901234567890123456789" > cache/tuning.sqlite
"$command" cache verify --cache "$work/cache" > out 2> err && fail "verify passes over damaged records"
grep -q "tuning.sqlite: .*; removed" out || fail "verify: $(cat out)"
explain --dialect auto --threads 1
"$command" cache clear --cache "$work/cache" > out 2> err && grep -q "$first measured times" out || fail "clear: $(cat out err)"
[ ! -e cache/tuning.sqlite ] || fail "clear leaves the records"
exit $((failures > 0))
