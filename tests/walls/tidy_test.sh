#!/bin/bash
# Every source of the product is as .clang-tidy has it: clang-tidy reads what the build compiles, the units of files too.
# usage: tidy_test.sh SOURCE BUILD [PATTERN]: with a pattern, only what it matches of the compiled files' names.
[ -e "$2/compile_commands.json" ] || { echo "usage: tidy_test.sh SOURCE BUILD [PATTERN]"; exit 2; }
cd "$1" || exit 2
source=$PWD
build=$(cd "$2" && pwd)
tidy=
for name in clang-tidy-19 clang-tidy; do # older ones cannot read C++20 as GCC's library has it
    if "$name" --version 2> /dev/null | grep -q 'version 19\.'; then tidy=$name; break; fi
done
if [ -z "$tidy" ]; then
    echo "skipped: there is no clang-tidy 19 here: install the package 'clang-tidy-19'"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
# GCC's header of OpenMP, alone and without an attribute that clang has not: its others are not for clang. The precompiled
# header is GCC's, too: clang reads the source.
mkdir "$work/openmp"
sed 's/__malloc__ (omp_free)/__malloc__/' "$(gcc -print-file-name=include/omp.h)" > "$work/openmp/omp.h"
while read -r header; do
    cp "$header" "$work/$(echo "$header" | tr / _)"
done < <(grep -o '[^ "]*cmake_pch.hxx ' "$build/compile_commands.json" | sort -u)
python3 - "$build" "$work" "${3-}" << 'P' > "$work/files"
import json, re, sys
build, work, pattern = sys.argv[1:]
commands = json.load(open(f'{build}/compile_commands.json'))
for entry in commands:
    entry['command'] = re.sub(r'-include (\S*cmake_pch\.hxx)', lambda m: f'-include {work}/{m[1].replace("/", "_")}',
                              entry['command'])
json.dump(commands, open(f'{work}/compile_commands.json', 'w'))
files = sorted({e['file'] for e in commands if '/tests/' not in e['file'] and 'cmake_pch' not in e['file']})
assert len(files) > 30, f'only {len(files)} files are compiled there'
print('\n'.join(f for f in files if re.search(pattern, f)))
P
[ -s "$work/files" ] || { echo "nothing that is compiled there is to be read"; exit 2; }
# clang does not know one word of GCC's attributes of functions for AVX-512, and then knows none of them.
registers=()
[ "$(uname -m)" = x86_64 ] && registers=(--extra-arg=-mavx512f)
folders='(apps|bundle|client|dialects|dsl|generators|runtime|schedules)'
nice xargs -P "${P:-$(nproc)}" -n 1 "$tidy" -p "$work" --config-file="$source/.clang-tidy" --quiet \
    --header-filter="^$source/$folders/" "${registers[@]}" --extra-arg=-Wno-unknown-warning-option --extra-arg=-isystem"$work/openmp" < "$work/files" > "$work/out" 2> "$work/log"
status=$?
grep -E '(warning|error): ' "$work/out" | sed "s|^$source/||" | sort -u
[ $status = 0 ] || grep -q 'error: ' "$work/out" || cat "$work/log"
exit $((status > 0))
