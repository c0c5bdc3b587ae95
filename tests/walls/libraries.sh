#!/bin/sh
# What trains links no compiler. usage: libraries.sh EXECUTABLE...
status=0
for program in "$@"; do
    needed=$(readelf -d "$program" 2>/dev/null | grep NEEDED)
    [ -n "$needed" ] || { echo "$program: not an executable that readelf can read"; exit 2; }
    if echo "$needed" | grep -Ei 'halide|llvm'; then
        echo "$program links the compiler"
        status=1
    fi
done
exit $status
