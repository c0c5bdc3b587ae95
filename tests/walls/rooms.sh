#!/bin/bash
# Rooms that a stranger can take in: at most so many files in a folder of the three largest parts, and each of these
# folders is named in the README of its part. usage: rooms.sh SOURCE_DIR
cd "$1" || exit 2
most=17
status=0
for part in generators apps/cryolite runtime; do
    [ -f "$part/README.md" ] || { echo "$part/README.md is not there: correct this rule"; exit 1; }
    while read -r room; do
        files=$(find "$room" -maxdepth 1 -type f \( -name '*.h' -o -name '*.cpp' \) | wc -l)
        if [ "$files" -gt "$most" ]; then
            echo "$room has $files files: make a room of some that belong together ($most at most)"
            status=1
        fi
        inner=${room#"$part"/}
        if [ "$files" -gt 0 ] && ! grep -qE "\`($inner|${inner##*/})/\`" "$part/README.md"; then
            echo "$part/README.md has no line for $room/"
            status=1
        fi
    done < <(find "$part" -mindepth 1 -type d ! -path 'runtime/halide*')
done
exit $status
