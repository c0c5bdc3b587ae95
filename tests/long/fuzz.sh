#!/bin/bash
# Each reader's fuzzer by itself, for CRYOLITE_FUZZ_SECONDS (1200): none may find a fault. What finds one is left in the build
# folder, by the name that is printed. usage: fuzz.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
source=$1 build=$2/fuzz
if ! command -v clang++ > /dev/null || [ ! -e "$(clang++ -print-runtime-dir)/libclang_rt.fuzzer-x86_64.a" ]; then
    echo "skipped: clang with libFuzzer is not here; install the packages clang and libclang-rt-14-dev"
    exit 0
fi
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cd "$source" || exit 1
"$(known CMAKE_COMMAND "$2")" --preset fuzz -DCMAKE_MAKE_PROGRAM="$(known CMAKE_MAKE_PROGRAM "$2")" > "$work/log" 2>&1 &&
    "$(known CMAKE_COMMAND "$2")" --build --preset fuzz > "$work/log" 2>&1 || { tail -20 "$work/log"; exit 1; }
for corpus in tests/fuzz/corpus/*/; do
    reader=$(basename "$corpus")
    mkdir -p "$build/new/$reader"
    "$build/tests/fuzz_$reader" "$build/new/$reader" "$corpus" -max_total_time="${CRYOLITE_FUZZ_SECONDS:-1200}" -timeout=20 \
        -rss_limit_mb=3000 -max_len=8192 -artifact_prefix="$build/$reader-" > "$work/log" 2>&1 ||
        fail "$reader: $(grep -E 'ERROR|SUMMARY|Test unit written' "$work/log")"
    echo "$reader: $(tail -1 "$work/log")"
done
exit $((failures > 0))
