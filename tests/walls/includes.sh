#!/bin/sh
# Who may include whom, and what the algorithms may not say. usage: includes.sh SOURCE_DIR
# Shown to fail, rule by rule, by rules_test.sh.
cd "$1" || exit 2
status=0

# Lines of these files and folders that match a pattern, and not the other: FILE:LINE:TEXT. What is missing is an error,
# or a rule would hold of nothing.
lines() { # lines PATTERN UNLESS PATH...
    pattern=$1 unless=$2
    shift 2
    for path; do
        [ -e "$path" ] || { echo "$path is not there: correct this rule"; return; }
    done
    grep -rnE --include='*.h' --include='*.cpp' --exclude-dir=halide -- "$pattern" "$@" | grep -vE -- "$unless"
}
forbid() { # forbid WHY PATTERN UNLESS PATH...
    why=$1
    shift
    found=$(lines "$@")
    [ -z "$found" ] && return
    printf '%s:\n%s\n' "$why" "$found"
    status=1
}

# only FOLDER MAY...: of this project, files there include what begins with one of these.
only() {
    folder=$1
    shift
    may=$(printf '|%s' "$@")
    forbid "$folder includes of this project only $*" '^ *# *include *"|^ *# *include *<(bundle|dsl|schedules|generators|dialects|runtime|client|apps|tests)/' \
        "# *include *\"(${may#|})" "$folder"
}

only bundle bundle/ dialects/table.h dialects/product.h
only dsl dsl/ bundle/
only schedules dsl/ schedules/ dialects/names.h bundle/
only generators dsl/ schedules/ generators/ dialects/product.h dialects/table.h bundle/
only client client/ runtime/ bundle/
only runtime runtime/ dialects/product.h dialects/dialect.h dialects/gpu_stream.h bundle/
only apps apps/ client/ runtime/ dialects/dialect.h bundle/
only dialects dialects/
for folder in layers schedules generators error support; do
    only tests/$folder dsl/ schedules/ generators/ dialects/dialect.h bundle/ tests/support/
done
for folder in runtime parity; do
    only tests/$folder bundle/ runtime/ dialects/dialect.h dialects/cublaslt/api.h tests/runtime/ tests/parity/ tests/faults/ tests/cuda/ \
        tests/support/slow.h tests/support/goldens.h
done
for folder in command speed; do
    only tests/$folder runtime/ client/ apps/cryolite/ bundle/ tests/runtime/ tests/faults/ tests/cuda/ \
        tests/command/ tests/support/slow.h tests/support/html_elements.h
done
only tests/faults tests/faults/
only tests/cuda tests/cuda/ tests/support/gelu.h
only tests/fuzz bundle/ runtime/ apps/cryolite/ tests/fuzz/
only tests/programs generators/cryolite.h tests/support/curves.h

# Inside of the compiler: ir <- passes <- lowering <- codegen <- checks <- driver. Of passes, lowering sees the program alone.
only generators/ir generators/ir/ dsl/shape.h dsl/nature.h bundle/entries.h bundle/error.h bundle/param_group.h bundle/role.h schedules/layout.h
only generators/passes generators/ir/ generators/passes/ dsl/ schedules/ dialects/table.h bundle/error.h bundle/param_group.h bundle/near_names.h bundle/block_names.h bundle/loss_scale.h
only generators/lowering generators/ir/ generators/passes/pass.h generators/lowering/ dsl/ schedules/ bundle/error.h bundle/loss_scale.h
only generators/codegen bundle/error.h generators/ir/ generators/passes/ generators/lowering/ generators/codegen/ dialects/product.h
only generators/checks dsl/ generators/passes/pass.h generators/lowering/ generators/codegen/ generators/checks/
only generators/programs generators/driver/program.h generators/fuzz/ dsl/ schedules/ bundle/program_description.h
only generators/fuzz generators/fuzz/ dsl/ schedules/ bundle/error.h

# Inside of them.
only schedules/gpu dsl/ schedules/group.h schedules/views.h schedules/regions.h schedules/contraction.h schedules/lets.h schedules/table.h schedules/gpu/
forbid "the loops of the CPU know nothing of those of a device" '# *include *"schedules/gpu/' '^$' schedules/cpu
only runtime/tokenizer runtime/tokenizer/ runtime/io/error.h runtime/io/files.h runtime/io/json_depth.h runtime/system/streams.h
only runtime/data runtime/data/ runtime/tokenizer/ runtime/io/error.h runtime/io/files.h runtime/system/rng.h runtime/system/threads.h runtime/system/trace.h
only runtime/collective runtime/collective/ runtime/io/error.h runtime/system/streams.h runtime/system/threads.h
only runtime/device runtime/device/ dialects/gpu_stream.h runtime/io/error.h runtime/system/streams.h runtime/system/threads.h runtime/system/trace.h
forbid "a device knows of the CPU's task scheduler and of no other device" '# *include *"runtime/device/[a-z]+/' \
    '/(cpu/[^:]*:.*device/cpu/|opencl/[^:]*:.*device/(opencl/|cpu/task_scheduler\.h)|cuda/[^:]*:.*device/(cuda/|cpu/task_scheduler\.h)|make_device\.cpp:)' runtime/device
forbid "processes and threads work together through one interface" '# *include *"runtime/collective/[a-z]+/' \
    '/(local/[^:]*:.*collective/local/|mpi/[^:]*:.*collective/mpi/|nccl/[^:]*:.*collective/nccl/)' runtime/collective

# What users' programs see: the compiler's own types have a namespace, and what they include names none.
forbid "the compiler is in cryolite::compiler" '^namespace cryolite ' '^generators/driver/program\.(h|cpp):' generators
forbid "users' programs see nothing of the compiler" '# *include *"generators/' '"generators/driver/program\.h"' generators/cryolite.h generators/driver/program.h

# Headers of others.
halide='# *include *[<"]Halide'
forbid "the compiler's half sees Halide.h alone of Halide" "$halide" '<Halide\.h>' dsl schedules generators
forbid "of Halide, the runtime sees its runtime's header" "$halide" '<HalideRuntime\.h>|^runtime/device/opencl/.*<HalideRuntimeOpenCL\.h>|^runtime/device/cuda/.*<HalideRuntimeCuda\.h>' runtime
forbid "the step as data sees nothing of Halide" "$halide" '^$' generators/ir dsl/shape.h dsl/nature.h bundle/entries.h bundle/error.h bundle/param_group.h bundle/role.h schedules/layout.h
forbid "an app sees nothing of Halide" "$halide" '^$' client apps
forbid "an app links client/, and nothing of the command" '# *include *"apps/cryolite/' '^apps/cryolite/' apps
forbid "the contract of both halves sees nothing of Halide" "$halide" '^$' bundle
forbid "of Halide, a dialect sees its runtime's header" "$halide" '<HalideRuntime\.h>' dialects
forbid "MPI is known to its collective alone" '# *include *[<"]mpi' '^runtime/collective/mpi/' bundle dsl schedules generators runtime client apps
forbid "OpenMP is known to the task scheduler of the CPU, to the measure of its peak and to random numbers" '# *include *[<"]omp\.h|# *pragma *omp' \
    '^runtime/(device/cpu/|exec/peak\.cpp|system/rng\.cpp)' dsl schedules generators runtime client apps
forbid "a library of products is known to its dialect alone" '# *include *[<"](oneapi/|dnnl|cublas)' '^dialects/onednn/' bundle dsl schedules generators dialects runtime client apps
forbid "what is of a device is known to that device" '# *include *[<"](CL/|cuda|nccl|nvtx)' '^runtime/device/' dsl schedules generators runtime client apps

# What may be said.
forbid "only a device knows where an array's memory is" '(\.|->)host\b' '^runtime/device/' runtime client apps
forbid "words for people never fail: tell() of runtime/system/streams.h" '\(stderr|cerr\b|clog\b|, stderr\)' '^$' runtime client apps
forbid "an algorithm holds no scheduling call: say it in schedules/" \
    '(\.|->)(vectorize|parallel|unroll|compute_root|compute_at|compute_with|compute_inline|store_root|store_at|store_in|tile|split|fuse|reorder|reorder_storage|hoist_storage|rfactor|bound|bound_extent|align_storage|prefetch|gpu_[a-z]+|atomic|async|ring_buffer|specialize)\(' \
    '^$' dsl
forbid "an algorithm does not ask for the target" 'Target::|get_host_target|get_jit_target|has_feature' '^$' dsl
exit $status
