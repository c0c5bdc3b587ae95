#!/bin/bash
# Every rule of includes.sh fails where it is broken, and libraries.sh and symbols where the halves are exchanged.
# usage: rules_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
walls=$1/tests/walls

# A tree that keeps all rules, as empty as can be.
mkdir -p bundle dialects/onednn dsl/layers client schedules/{cpu,gpu} generators/{ir,passes,lowering,codegen,checks,driver,fuzz,programs} runtime/{data,tokenizer,train,halide,collective/{local,mpi},device/{cpu,opencl,cuda}} \
    apps/{cryolite,gpt,digits} tests/{layers,schedules,generators,error,support,runtime,parity,command,speed,programs,faults,fuzz,cuda}
touch generators/{cryolite,driver/program}.h dsl/{shape,nature}.h bundle/{entries,error,param_group,role}.h schedules/layout.h
"$walls/includes.sh" "$work" > out || fail "a tree without a line is refused: $(cat out)"

# Files that break rules are written first, and the tree is read once for all of them: it takes a quarter of a second.
: > expected
written=0
write() { # write FILE LINE: as a file of its own beside that one, whose name it sets
    written=$((written + 1)) file=$1
    case $1 in */a.h | */a.cpp) file=${1%/*}/a$written.${1##*.} ;; esac
    [ ! -s "$file" ] || { fail "rules_test.sh writes $file twice"; return; }
    printf '%s\n' "$2" > "$file"
}
broken() { # broken FILE LINE WORDS: a file of this one line breaks the rule of these words
    write "$1" "$2"
    printf '%s\t%s\t%s\n' "$file" "$3" "$2" >> expected
}
kept=()
kept() { # kept FILE LINE
    write "$1" "$2"
    kept+=("$file")
}
only='includes of this project only'
broken bundle/a.h '#include "runtime/plan/bundle.h"' "bundle $only"
broken bundle/a.cpp '#include "dsl/shape.h"' "bundle $only"
broken bundle/a.h '#include <Halide.h>' 'the contract of both halves sees nothing of Halide'
for folder in dsl schedules generators runtime apps; do kept $folder/a.cpp '#include "bundle/step_config.h"'; done
broken dsl/layers/a.h '#include "schedules/group.h"' "dsl $only"
broken dsl/a.h '#include <runtime/plan/bundle.h>' "dsl $only"
broken dsl/a.h '#  include "error.h"' "dsl $only"
broken schedules/cpu/a.cpp '#include "generators/passes/pass.h"' "schedules $only"
broken schedules/a.h '#include "dialects/table.h"' "schedules $only"
broken generators/a.cpp '#include "runtime/plan/bundle.h"' "generators $only"
broken generators/a.cpp '#include "apps/cryolite/cli/flags.h"' "generators $only"
broken generators/ir/a.h '#include "dsl/layer.h"' "generators/ir $only"
broken generators/ir/a.h '#include <Halide.h>' 'the step as data sees nothing of Halide'
broken generators/passes/a.h '#include "generators/lowering/kernel/kernel_builder.h"' "generators/passes $only"
broken generators/lowering/a.h '#include "generators/passes/pipeline.h"' "generators/lowering $only"
broken generators/codegen/a.h '#include "generators/driver/write_bundle.h"' "generators/codegen $only"
broken generators/programs/a.cpp '#include "generators/passes/pass.h"' "generators/programs $only"
broken generators/fuzz/a.cpp '#include "generators/passes/pass.h"' "generators/fuzz $only"
broken generators/a.h 'namespace cryolite {' 'the compiler is in cryolite::compiler'
broken runtime/a.cpp '#include "dsl/shape.h"' "runtime $only"
broken runtime/device/opencl/a.cpp '#include "generators/passes/pass.h"' "runtime $only"
broken runtime/collective/mpi/a.cpp '#include "apps/cryolite/cli/flags.h"' "runtime $only"
broken apps/cryolite/a.cpp '#include "generators/driver/program.h"' "apps $only"
broken apps/gpt/a.cpp '#include "dsl/models/gpt.h"' "apps $only"
broken apps/gpt/a.cpp '#include "apps/cryolite/cli/flags.h"' 'an app links client/, and nothing of the command'
broken client/a.cpp '#include "apps/cryolite/cli/flags.h"' "client $only"
broken apps/digits/a.cpp '#include "tests/runtime/scratch.h"' "apps $only"
for folder in layers schedules generators error support; do
    broken tests/$folder/a.cpp '#include "runtime/plan/bundle.h"' "tests/$folder $only"
done
for folder in runtime parity; do broken tests/$folder/a.cpp '#include "apps/cryolite/cli/flags.h"' "tests/$folder $only"; done
for folder in command speed; do broken tests/$folder/a.cpp '#include "dsl/shape.h"' "tests/$folder $only"; done
broken tests/programs/a.cpp '#include "dsl/shape.h"' "tests/programs $only"
broken schedules/gpu/a.cpp '#include "schedules/cpu/loops.h"' "schedules/gpu $only"
broken schedules/cpu/a.cpp '#include "schedules/gpu/loops.h"' 'know nothing of those of a device'
broken runtime/data/a.cpp '#include "runtime/train/trainer.h"' "runtime/data $only"
broken runtime/collective/a.cpp '#include "runtime/device/device.h"' "runtime/collective $only"
broken runtime/device/a.cpp '#include "runtime/plan/bundle.h"' "runtime/device $only"
broken runtime/device/cpu/a.cpp '#include "runtime/device/opencl/opencl_api.h"' 'of no other device'
broken runtime/device/opencl/a.cpp '#include "runtime/device/cpu/cpu_device.h"' 'of no other device'
broken runtime/device/cuda/a.cpp '#include "runtime/device/opencl/opencl_api.h"' 'of no other device'
kept runtime/device/opencl/a.cpp '#include "runtime/device/cpu/task_scheduler.h"'
kept runtime/device/cuda/a.cpp '#include "runtime/device/cpu/task_scheduler.h"'
kept runtime/device/make_device.cpp '#include "runtime/device/opencl/opencl_device.h"'
broken runtime/collective/local/a.cpp '#include "runtime/collective/mpi/a.h"' 'through one interface'
broken generators/a.cpp '#include <HalideBuffer.h>' 'sees Halide.h alone'
broken runtime/a.cpp '#include <Halide.h>' "its runtime's header"
broken runtime/a.cpp '#include <HalideRuntimeOpenCL.h>' "its runtime's header"
broken runtime/device/opencl/a.cpp '#include <HalideRuntimeCuda.h>' "its runtime's header"
kept runtime/device/opencl/a.cpp '#include <HalideRuntimeOpenCL.h>'
kept runtime/device/cuda/a.cpp '#include <HalideRuntimeCuda.h>'
broken dialects/a.cpp '#include "runtime/plan/bundle.h"' "dialects $only"
broken dialects/a.h '#include <Halide.h>' "a dialect sees its runtime's header"
broken runtime/a.cpp '#include <oneapi/dnnl/dnnl.h>' 'known to its dialect alone'
kept dialects/onednn/a.cpp '#include <oneapi/dnnl/dnnl.h>'
broken runtime/a.cpp '#include <cublasLt.h>' 'a library of products is known to its dialect alone'
kept runtime/device/cuda/a.h '#include "dialects/gpu_stream.h"'
broken runtime/device/cuda/a.h '#include "dialects/dialect.h"' "runtime/device $only"
broken apps/cryolite/a.cpp '#include <HalideRuntime.h>' 'an app sees nothing of Halide'
broken runtime/collective/a.cpp '#include <mpi.h>' 'MPI is known'
broken runtime/train/trainer.cpp '#pragma omp parallel' 'OpenMP is known'
broken apps/cryolite/a.cpp '#include <omp.h>' 'OpenMP is known'
broken runtime/a.cpp '#include <CL/cl.h>' 'of a device is known'
broken runtime/a.cpp 'auto *p = buffer.host;' "only a device knows where"
broken apps/cryolite/a.cpp 'auto *p = buffer->host;' "only a device knows where"
broken apps/cryolite/a.cpp '    fmt::print(stderr, "x");' 'words for people never fail'
broken runtime/a.cpp '    std::cerr << x;' 'words for people never fail'
broken dsl/layers/a.h '    y.vectorize(i, 16);' 'no scheduling call'
broken dsl/a.cpp '    if (t.has_feature(Target::AVX2)) {}' 'does not ask for the target'
broken generators/driver/program.h '#include "generators/passes/pass.h"' 'see nothing of the compiler'
broken generators/cryolite.h '#include "generators/passes/pass.h"' 'see nothing of the compiler'

if "$walls/includes.sh" "$work" > out; then fail "a tree that breaks all rules is accepted"; fi
# Of what is said: "RULE:" on a line, then FILE:LINE:TEXT of each line that breaks it.
python3 - "${kept[@]}" << 'END' || fail "some rules do not hold as they should"
import re, sys
rule, found = "", set()
for line in open("out"):
    if match := re.match(r"([^ :]+\.(?:h|cpp)):1:", line):
        found.add((match[1], rule))
    else:
        rule = line.strip()
wrong = [f"{file} may not say what it says: {rule}" for file, rule in found if file in sys.argv[1:]]
for line in open("expected"):
    file, words, text = line.rstrip("\n").split("\t")
    if not any(f == file and words in rule for f, rule in found):
        wrong.append(f"{file} may say {text}: expected '{words}', found {[rule for f, rule in found if f == file]}")
print("\n".join(wrong), end="\n" if wrong else "")
sys.exit(bool(wrong))
END
while IFS= read -r file; do : > "$file"; done < <(cut -f1 expected)
"$walls/includes.sh" "$work" > out || fail "a tree that breaks no rule any more is refused: $(cat out)"
mv runtime/data data
if "$walls/includes.sh" "$work" > out; then fail "a rule about a folder that is not there holds"; fi

# The halves exchanged.
program=$2/generators/gpt
if [ -x "$program" ]; then
    if "$walls/libraries.sh" trains "$program" > out; then fail "a program that links the compiler passes for one that trains"; fi
    grep -q 'libHalide' out || fail "libraries.sh does not name the compiler: $(cat out)"
    if "$walls/libraries.sh" compiles "$command" > out; then fail "the command passes for a generator program"; fi
    grep -q 'of the other half' out || fail "libraries.sh sees no runtime in the command: $(cat out)"
    if "$walls/libraries.sh" mpi "$command" > out; then fail "the command passes for the library of MPI"; fi
fi
if "$walls/libraries.sh" trains "$walls/includes.sh" > out; then fail "a text passes for a program"; fi

# Rooms that are crowded, or that no README names.
for part in generators apps/cryolite runtime; do
    mkdir -p "rooms/$part/a" && touch "rooms/$part/a"/{1..17}.cpp && echo '| `a/` | a room |' > "rooms/$part/README.md"
done
"$walls/rooms.sh" rooms > out || fail "rooms that keep the rules are refused: $(cat out)"
touch rooms/runtime/a/18.h
if "$walls/rooms.sh" rooms > out; then fail "a crowded room is not found"; fi
rm rooms/runtime/a/18.h
echo 'of other rooms' > rooms/generators/README.md
if "$walls/rooms.sh" rooms > out; then fail "a room without a line in a README is not found"; fi

# Without its arguments this test changes nothing.
mkdir alone
if (cd alone && "$walls/rules_test.sh") > /dev/null 2>&1; then fail "rules_test.sh begins without its arguments"; fi
if [ -n "$(ls alone)" ]; then fail "rules_test.sh without its arguments has left $(ls alone)"; fi

[ $failures = 0 ] && echo "every rule can fail"
exit $((failures > 0))
