#!/bin/sh
# Who may include whom, and what the algorithms may not say. usage: includes.sh SOURCE_DIR
cd "$1" || exit 2
status=0

# forbid WHY PATTERN PATH...: no line of these files may match.
forbid() {
    why=$1 pattern=$2
    shift 2
    found=$(grep -rnE --include='*.h' --include='*.cpp' "$pattern" "$@" 2>/dev/null)
    [ -z "$found" ] && return
    printf '%s:\n%s\n' "$why" "$found"
    status=1
}

forbid "dsl includes only dsl" \
    '#include "(schedules|generators|runtime|apps|tests)/' dsl
forbid "schedules include only dsl and schedules" \
    '#include "(generators|runtime|apps|tests)/' schedules
forbid "generators include nothing of the runtime's half" \
    '#include "(runtime|apps|tests)/' generators
forbid "the runtime includes nothing of the compiler's half" \
    '#include ["<](dsl|schedules|generators|apps|tests)/|#include ["<]Halide\.h' runtime
forbid "apps include nothing of the compiler's half" \
    '#include ["<](dsl|schedules|generators|tests)/|#include ["<]Halide\.h' apps
forbid "dialects are what both halves share: they include neither" \
    '#include "(dsl|schedules|generators|runtime|apps|tests)/|#include ["<]Halide\.h' dialects
forbid "only a device knows where an array's memory is" \
    '(\.|->)host\b' runtime/*.h runtime/*.cpp runtime/data apps
forbid "an algorithm holds no scheduling call: say it in schedules/" \
    '(\.|->)(vectorize|parallel|unroll|compute_root|compute_at|compute_with|compute_inline|store_root|store_at|store_in|tile|split|fuse|reorder|reorder_storage|hoist_storage|rfactor|bound|bound_extent|align_storage|prefetch|gpu_[a-z]+|atomic|async|ring_buffer|specialize)\(' dsl
forbid "an algorithm does not ask for the target" \
    'Target::|get_host_target|get_jit_target|has_feature' dsl
exit $status
