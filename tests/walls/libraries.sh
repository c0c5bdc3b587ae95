#!/bin/sh
# What the built programs link: by the libraries they ask for, and by the symbols that they hold.
# usage: libraries.sh trains|compiles|mpi PROGRAM...
role=$1
shift
status=0
refuse() {
    printf '%s %s:\n%s\n' "$program" "$1" "$2"
    status=1
}

case $role in
    # The command, tests of the runtime: no compiler, and nothing that is loaded only where it is asked for.
    trains) forbidden='halide|llvm|libmpi|opencl|libcuda|libnccl' other='Halide::(Func|Internal|Pipeline)|cryolite::(compiler|LayerNorm|Step)\b' ;;
    # Generator programs: no runtime, no threads of OpenMP's beside the compiler's own.
    compiles) forbidden='gomp|libomp|libmpi|opencl|libcuda|libnccl' other='cryolite::(Trainer|Executor|TaskScheduler|Bundle|Cache)::' ;;
    # The library of MPI: what it stands for, and what the command has anyway.
    mpi) forbidden='halide|llvm|gomp|libomp|opencl|libcuda|libnccl' other='Halide::(Func|Internal|Pipeline)|cryolite::(Trainer|Executor|TaskScheduler|Bundle|Cache)::' ;;
    *) echo "usage: libraries.sh trains|compiles|mpi PROGRAM..." >&2; exit 2 ;;
esac
for program; do
    needed=$(readelf -d "$program" 2>/dev/null | grep NEEDED)
    [ -n "$needed" ] || { echo "$program: not an executable that readelf can read"; exit 2; }
    found=$(echo "$needed" | grep -Ei "$forbidden") && refuse "links what is not its" "$found"
    [ "$(echo "$needed" | grep -cE 'libgomp|libi?omp')" -le 1 ] || refuse "links two runtimes of OpenMP" "$needed"
    names=$(nm -C --defined-only "$program" 2>/dev/null)
    [ -n "$names" ] || { echo "$program: nm finds no symbols in it, so nothing can be said of what it holds"; exit 2; }
    found=$(echo "$names" | grep -E "$other" | head -3) && [ -n "$found" ] && refuse "holds functions of the other half" "$found"
    [ $role = mpi ] && ! echo "$needed" | grep -q libmpi && refuse "does not link MPI" "$needed"
done
exit $status
