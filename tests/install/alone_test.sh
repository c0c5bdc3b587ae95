#!/bin/bash
# The runtime and the command alone: configured and built where there is no Halide, no LLVM and no Python, they train with the
# kernels that the full build has compiled, bit by bit as it does, and say what is missing where there are none.
# usage: alone_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
source=$1
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2)
run=(--steps 3 --eval-every 0 --json --cache "$work/cache")

# --- Built with the tools of C++ and nothing else on PATH -------------------------------------------
mkdir tools home
for tool in c++ as ld ar ranlib ninja make; do
    path=$(command -v $tool) && ln -s "$path" tools/$tool
done
# CMake and what it builds with are those of the full build: they may be in its environment only.
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cmake=$(known CMAKE_COMMAND "$2") generator=$(known CMAKE_GENERATOR "$2")
ln -sf "$(known CMAKE_MAKE_PROGRAM "$2")" tools/
clean=(env -i HOME="$work/home" PATH="$work/tools")
for tool in python3 ld.lld llvm-mca-19 clang; do
    if "${clean[@]}" "$BASH" -c "command -v $tool" > found; then fail "$tool is on the test's PATH: $(cat found)"; fi
done
"${clean[@]}" "$cmake" -G "$generator" -S "$source" -B alone -DCRYOLITE_COMPILER=OFF -DCRYOLITE_TESTS=OFF \
    -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 > log 2>&1 || { cat log; fail "it does not configure"; exit 1; }
"${clean[@]}" "$cmake" --build alone --target command --parallel "$(nproc)" > log 2>&1 ||
    { grep -m 5 -i error log; fail "it does not build"; exit 1; }
if grep -iE '=.*(libhalide|libllvm|halide/(include|lib))' alone/CMakeCache.txt | grep -v "$source/runtime/halide"; then
    fail "it has found a Halide or an LLVM"
fi
if grep -oE '\-(I|isystem) *[^ ]*[Hh]alide[^ ]*' alone/compile_commands.json | grep -vF "$source/runtime/halide"; then
    fail "it is compiled with headers of a Halide elsewhere"
fi
alone=$work/alone/bin/cryolite
"$source/tests/walls/libraries.sh" trains "$alone" || fail "what it links"
"$source/tests/walls/symbols.sh" alone/libcryolite_runtime.a "$alone" || fail "what it asks for of Halide"

# --- It trains with what another build has compiled -------------------------------------------------
alone() { "${clean[@]}" PATH=/nowhere "$alone" "$@"; }
alone train "${tiny[@]}" "${run[@]}" --out none > out 2> err
[ $? = 1 ] || fail "without a bundle it ends with $?"
grep -qF "$work/cache has no compiled bundle of gpt, and this build has no compiler" err || fail "without a bundle it says $(cat err)"
"$command" train "${tiny[@]}" "${run[@]}" --out full > full.json 2> err || fail "the full build: $(cat err)"
alone train "${tiny[@]}" "${run[@]}" --out own > own.json 2> err || fail "alone: $(cat err)"
grep -qE '"event":"compile","kernels":([0-9]+),"cached":\1,' own.json || fail "what it compiled: $(head -1 own.json)"
[ "$(grep -c '"event":"step"' own.json)" = 3 ] || fail "it took not 3 steps: $(cat err)"
for file in model optimizer; do
    cmp full/checkpoints/step-000003/$file.safetensors own/checkpoints/step-000003/$file.safetensors ||
        fail "other bits in $file.safetensors"
done
sample=(--prompt A --tokens 9 --temperature 0 --cache "$work/cache")
alone sample own "${sample[@]}" > own.txt 2> err || fail "sample does not take the kernels of training: $(cat err)"
if alone sample own "${sample[@]}" --compile > out 2> err; then fail "it samples without a bundle for one sequence"; fi
grep -qF -- "--batch 2 -> 1" err || fail "sample --compile says $(cat err)"
for way in "" --compile; do
    "$command" sample full "${sample[@]}" $way > full.txt 2> err || fail "sample $way: $(cat err)"
    cmp full.txt own.txt || fail "another text with sample $way"
done
grep -q "all from the cache" err && fail "sample --compile compiles nothing: $(cat err)"
alone sample own "${sample[@]}" --compile > own.txt 2> err || fail "sample --compile: $(cat err)"
cmp full.txt own.txt || fail "another text"

# --- What is not there is named, and how to get it --------------------------------------------------
missing() { # missing WORDS ARGUMENTS...
    local words=$1 got
    shift
    alone "$@" --cache "$work/cache" > out 2> err
    got=$?
    [ $got = 1 ] || fail "$*: exit status $got, expected 1: $(tail -1 err)"
    grep -qF -- "$words" err || fail "$*: said '$(cat err)', expected '$words'"
}
missing 'what differs: --width 16 -> 32' train "${tiny[@]}" --width 32
missing 'what differs: --update auto -> separate' train "${tiny[@]}" --update separate
missing 'Run `cryolite explain gpt` with the same flags and --cache DIR' bench "${tiny[@]}" --layers 2
missing 'no compiled bundle of digits (it has some of gpt)' train digits
missing 'no compiled bundle of mine.cpp' train mine.cpp
missing 'this build has no compiler' check gpt
missing 'what differs: --width 16 -> 32' cache why "${tiny[@]}" --width 32
alone cache why "${tiny[@]}" --update separate --cache "$work/cache" > out || fail "cache why: $(cat out)"
grep -q "not in the cache, and this build has no compiler" out || fail "cache why says $(head -1 out)"

[ $failures = 0 ] && echo "the runtime trains alone"
exit $((failures > 0))
