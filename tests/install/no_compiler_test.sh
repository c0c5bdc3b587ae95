#!/bin/bash
# Compiling a kernel needs no C compiler: with nothing but lld on PATH, kernels are compiled into a fresh cache and train.
# usage: no_compiler_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

mkdir tools nothing
ln -s "$(command -v ld.lld)" tools/ld.lld
for compiler in cc gcc g++ c++ clang clang++ as ld; do
    if (PATH=$work/tools; command -v $compiler) > found; then fail "$compiler is on the test's PATH: $(cat found)"; fi
done

train() { # train PATH
    PATH=$1 "$command" train --layers 1 --heads 2 --width 16 --context 8 --batch 2 --steps 3 --eval-every 0 --json \
        --out "$work/run" --cache "$work/cache" > out 2> err
}
if train "$work/nothing"; then fail "kernels were linked without lld"; fi
grep -q "cannot run ld.lld .*install the package 'lld'" err || fail "without lld it says: $(tail -2 err)"
rm -rf cache run
train "$work/tools" || fail "train: $(cat err)"
grep -q '"event":"compile".*"cached":0[,}]' out || fail "its kernels were not compiled here: $(grep compile out)"
[ "$(grep -c '"event":"step"' out)" = 3 ] || fail "it did not train"

[ $failures = 0 ] && echo "no compiler was needed"
exit $((failures > 0))
