#!/bin/sh
# The library of the runtime has what it asks for of Halide's runtime, and the command offers that to kernels.
# usage: symbols.sh LIBRARY COMMAND
nm "$1" > /dev/null || exit 2
has=$(nm --defined-only "$1" 2> /dev/null | grep -oE ' T halide_[a-z_]+$' | sed 's/.* //' | sort -u)
asks=$(nm -u "$1" 2> /dev/null | grep -oE '(halide_[a-z_]+|_ZN6Halide.*)$' | sort -u)
status=0
[ "$has" = "halide_cuda_device_free
halide_cuda_device_malloc
halide_cuda_finalize_kernels
halide_cuda_initialize_kernels
halide_cuda_run
halide_do_par_for
halide_error
halide_free
halide_malloc" ] || { echo "$1 has of Halide's runtime not what docs/plan.md says kernels find: $has"; status=1; }
for name in $asks; do
    echo "$has" | grep -qxF "$name" || { echo "$1 asks for $name, which it does not have"; status=1; }
done
for name in $has; do
    nm -D --defined-only "$2" | grep -q " T $name$" || { echo "$2 does not export $name to kernels"; status=1; }
done
exit $status
