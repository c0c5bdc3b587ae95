#!/bin/bash
# Mistakes of one line planted in the compiler's passes (planted.txt): `cryolite fuzz` finds each. One build has them all, and
# an environment variable turns one on. Prints how long each took. usage: planted.sh SOURCE BUILD [SECONDS FOR EACH: 600]
# With 0 seconds it only checks that each line is still where planted.txt has it.
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
source=$1 seconds=${3:-600} copy=${CRYOLITE_PLANTED_COPY:-$2/planted} list=$1/tests/long/planted.txt
[ "$seconds" = 0 ] && copy=$work/planted
known() { sed -n "s/^$1:[^=]*=//p" "$2/CMakeCache.txt"; }
mkdir -p "$copy" && (cd "$source" && git ls-files -z) | (cd "$source" && tar -c --null -T - 2> /dev/null) | tar -x -C "$copy" || exit 1
ln -sfn "$source/.venv" "$copy/.venv"
cat > "$copy/generators/passes/planted.h" << 'END'
#pragma once
#include <cstdlib>
#include <string_view>
inline bool planted(const char *name) {
    const char *asked = std::getenv("CRYOLITE_PLANTED");
    return asked && std::string_view(asked) == name;
}
END
mistakes() { grep -v '^#' "$list"; }
while IFS=$'\t' read -r name file expression; do
    cp "$copy/generators/passes/$file" before
    sed -i "$expression" "$copy/generators/passes/$file"
    cmp -s before "$copy/generators/passes/$file" && { fail "$name: the line is not in $file any more: correct planted.txt"; continue; }
    sed -i '1i #include "generators/passes/planted.h"' "$copy/generators/passes/$file"
done < <(mistakes)
[ $failures = 0 ] || exit 1
if [ "$seconds" = 0 ]; then echo "$(mistakes | wc -l) lines are where planted.txt has them"; exit 0; fi
"$(known CMAKE_COMMAND "$2")" -G Ninja -S "$copy" -B "$copy/build" -DCMAKE_BUILD_TYPE=Release -DCRYOLITE_TESTS=OFF \
    -DCMAKE_MAKE_PROGRAM="$(known CMAKE_MAKE_PROGRAM "$2")" > log 2>&1 &&
    "$(known CMAKE_COMMAND "$2")" --build "$copy/build" --target cryolite generator_fuzz > log 2>&1 || { tail -20 log; exit 1; }
export CRYOLITE_ROOT=$copy CRYOLITE_VERIFY=1
command=$copy/build/bin/cryolite
"$command" fuzz --cases 20 --seed 1 > found 2>&1 || { fail "without a mistake: $(tail -3 found)"; exit 1; }
all=$SECONDS
while IFS=$'\t' read -r name _; do
    begun=$SECONDS
    CRYOLITE_PLANTED=$name "$command" fuzz --for "${seconds}s" --seed 1 --shrinks 0 < /dev/null > found 2> err
    status=$?
    [ $status = 1 ] && grep -q "cryolite fuzz --case" found || { fail "$name: not found in $seconds s (status $status): $(tail -2 err)"; continue; }
    echo "$name: found after $((SECONDS - begun)) s: $(grep '^// ' found | head -1)"
done < <(mistakes)
echo "$(mistakes | wc -l) mistakes in $((SECONDS - all)) s"
exit $((failures > 0))
