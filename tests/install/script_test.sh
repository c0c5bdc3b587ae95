#!/bin/bash
# ./cryolite from copies of the checkout. The tools that it calls are stand-ins here that note their
# arguments, so that what is tested is the script: a real set-up is what CI begins with.
# script_test.sh SOURCE_FOLDER BUILD_FOLDER
set -u
source=$1
scratch=$(mktemp -d "${TMPDIR:-/tmp}/cryolite script test XXXXXX")
trap 'rm -rf "$scratch"' EXIT
unset CI CXX
# Should a stand-in not be taken for the real thing, nothing is fetched and built for minutes.
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$scratch/nothing
failures=0

check() { # check WHAT COMMAND...
    local what=$1
    shift
    if "$@"; then return; fi
    echo "FAILED: $what ($*)"
    sed 's/^/    out: /' "$scratch/out"
    sed 's/^/    err: /' "$scratch/err"
    failures=$((failures + 1))
}
has() { grep -qF -- "$2" "$scratch/$1"; }
lacks() { ! has "$@"; }
is() { [ "$1" = "$2" ]; }
run() { "$@" > "$scratch/out" 2> "$scratch/err" < /dev/null; status=$?; }
tool_calls() { cat "$copy/calls" 2> /dev/null; : > "$copy/calls"; }

make_tool() { # make_tool PATH BODY
    mkdir -p "${1%/*}"
    printf '#!/bin/bash\n%s\n' "$2" > "$1"
    chmod +x "$1"
}

# A copy that looks set up: a private environment, and tools that leave a command behind.
make_copy() { # make_copy FOLDER
    copy=$1
    mkdir -p "$copy"
    for part in cryolite cmake CMakeLists.txt dsl schedules dialects bundle generators runtime client apps tools tests; do
        cp -R "$source/$part" "$copy/"
    done
    make_tool "$copy/stub/cryolite" 'echo "cwd=$PWD root=$CRYOLITE_ROOT start=$CRYOLITE_START args=$#:$*"'
    make_tool "$copy/.venv/bin/cmake" 'echo "cmake $*" >> "'"$copy"'/calls"; echo "CMAKE_HOME_DIRECTORY:INTERNAL='"$copy"'" > "'"$copy"'/build/CMakeCache.txt"; : > "'"$copy"'/build/build.ninja"
rm -f "'"$copy"'/build/mpi"; if command -v mpicxx > /dev/null; then : > "'"$copy"'/build/mpi"; fi'
    make_tool "$copy/.venv/bin/ninja" 'echo "ninja ${@: -1}" >> "'"$copy"'/calls"
mkdir "'"$copy"'/busy" || exit 9
echo "[3/9] Building CXX object"
sleep "${NINJA_SLEEPS:-0}"; rmdir "'"$copy"'/busy"
if [ -e "'"$copy"'/broken" ]; then echo "dsl/layer.h:7:3: error: broken"; exit 1; fi
mkdir -p "'"$copy"'/build/bin"; cp "'"$copy"'/stub/cryolite" "'"$copy"'/build/bin/cryolite"
if [ -e "'"$copy"'/build/mpi" ]; then : > "'"$copy"'/build/bin/libcryolite_mpi.so"; fi'
    make_tool "$copy/.venv/bin/ctest" 'echo "ctest $*" >> "'"$copy"'/calls"; echo "100% tests passed, 0 tests failed out of 3"'
    echo "$copy $(grep -v '^#' "$copy/cmake/requirements.txt" | tr '\n' ' ')" > "$copy/.venv/.ready"
    mkdir -p "$copy/build"
    for what in command tests; do echo "$copy" > "$copy/build/.packages-$what"; done
}

# Whatever holds code that the command is made of.
source_folders() {
    (cd "$source" && find [a-z]*/ -path 'build*' -prune -o \( -name '*.h' -o -name '*.cpp' \) -print | cut -d/ -f1 | grep -vx tests | sort -u)
}

builds_when_needed() {
    run "$copy/cryolite" train --steps 3
    check "the first start" is $status 0
    check "the first start configures and builds" is "$(tool_calls | cut -d' ' -f1,2 | tr '\n' ';')" "cmake -G;ninja generator_gpt;"
    check "each phase says so" has err "cryolite: building"
    check "the command has the rest" has out "args=3:train --steps 3"
    run "$copy/cryolite" train
    check "the second start builds nothing" is "$(tool_calls)" ""
    check "and says nothing" is "$(cat "$scratch/err")" ""
    run "$copy/cryolite" explain --preset nano
    check "the same app is built for every command" is "$(tool_calls)" ""
    for start in "train llama:ninja generator_llama" "bench --steps 3 digits:ninja generator_digits" "train my_model.cpp:ninja cryolite_compiler" \
                 "train gpt --dialect=onednn:ninja command" "train --config x.toml:" "sample runs/x:"; do
        run "$copy/cryolite" ${start%:*}
        check "${start%:*} builds what it runs" is "$(tool_calls)" "${start##*:}"
    done
    sleep 0.01
    touch "$copy/dsl/newer.h"
    mkdir -p "$scratch/of_llama" "$scratch/of_onednn"
    printf 'app = "llama"\ndialect = "halide"\n' > "$scratch/of_llama/config.toml"
    printf 'app = "llama"\ndialect = "onednn"\n' > "$scratch/of_onednn/config.toml"
    pushd "$scratch" > /dev/null
    for start in "sample --prompt x of_llama:ninja generator_llama" "train --resume --out=of_llama:" "train --out of_llama --resume:" \
                 "train --out of_llama:ninja generator_gpt" "train --resume --out of_onednn:ninja command"; do
        run "$copy/cryolite" ${start%:*}
        check "${start%:*} builds what its run needs" is "$(tool_calls)" "${start##*:}"
    done
    popd > /dev/null
    for folder in $(source_folders); do
        sleep 0.01
        touch "$copy/$folder/newer.h"
        run "$copy/cryolite"
        check "a newer source in $folder is built" is "$(tool_calls)" "ninja command"
    done
    sleep 0.01
    touch "$copy/dsl/layer.h"
    CRYOLITE_WATCH_SECONDS=0.5 NINJA_SLEEPS=2 run "$copy/cryolite"
    check "a long build says how far it is, once, and then its time" grep -qE "\.\.\. \[3/9\] [0-9]+\.[0-9] s$" "$scratch/err"
    tool_calls > /dev/null
    sleep 0.01
    rm "$copy/dsl/shape.h"
    run "$copy/cryolite"
    check "a source that went is noticed" is "$(tool_calls)" "ninja command"
    sleep 0.01
    touch "$copy/tests/CMakeLists.txt"
    run "$copy/cryolite"
    check "tests are nothing to the command" is "$(tool_calls)" ""
}

finds_itself() {
    ln -sf "$copy/cryolite" "$scratch/link"
    ln -sf link "$scratch/link to link"
    mkdir -p "$scratch/else where"
    cd "$scratch/else where" || exit 1
    for name in "$copy/cryolite" "../link" "$scratch/link to link" "../a copy/cryolite" "../a copy/./cryolite"; do
        run "$name" train "two words" --data x.txt
        check "started as $name" is $status 0
        check "$name keeps the folder" has out "cwd=$scratch/else where root="
        check "$name keeps the words" has out "args=4:train two words --data x.txt"
        check "$name needs no build" is "$(tool_calls)" ""
    done
    run bash ../link; check "through bash" is $status 0
    PATH="$copy:$PATH" run cryolite; check "through PATH" is $status 0
    cd "$copy" || exit 1
    run bash cryolite; check "bash cryolite" is $status 0
    run ./cryolite; check "./cryolite" has out "root=$copy start="
    check "none of them built" is "$(tool_calls)" ""
    check "the start is a time" grep -qE "start=[0-9]{10}\.[0-9]{6} " "$scratch/out"
    cd / || exit 1
}

adds_no_delay() {
    local best=1000000 t0 t1
    for _ in $(seq 20); do
        t0=${EPOCHREALTIME/[.,]/}
        "$copy/cryolite" > /dev/null
        t1=${EPOCHREALTIME/[.,]/}
        if [ $((t1 - t0)) -lt $best ]; then best=$((t1 - t0)); fi
    done
    echo "a start takes $best us, the stand-in's included"
    check "a start is quick" test $best -lt 50000
}

runs_tests() {
    run "$copy/cryolite" test 'layers/.*'
    check "test builds all, then runs ctest" grep -q "^ninja all" "$copy/calls"
    check "with the pattern" grep -qE '^ctest .*--output-on-failure.* -R layers/\.\*$' "$copy/calls"
    check "its last line is that of ctest" is "$(tail -n 1 "$scratch/out")" "100% tests passed, 0 tests failed out of 3"
    : > "$copy/calls"
    run "$copy/cryolite" test
    check "test alone leaves out what is slow" grep -qE '^ctest .*--output-on-failure.* -LE \^slow\$$' "$copy/calls"
    : > "$copy/calls"
    run "$copy/cryolite" test --all
    check "test --all" grep -qE '^ctest .*--output-on-failure.* -C long$' "$copy/calls"
    run "$copy/cryolite" test --all fuzz
    check "test --all with a pattern" grep -qE '^ctest .*--output-on-failure.* -C long -R fuzz$' "$copy/calls"
    make_tool "$copy/.venv/bin/ctest" 'echo "Total Tests: 0"'
    run "$copy/cryolite" test nosuchtest
    check "a pattern without a test" is $status 2
    check "is named" has err "no test's name has the pattern 'nosuchtest'"
    make_tool "$copy/.venv/bin/ctest" 'exit 8'
    run "$copy/cryolite" test
    check "failing tests" is $status 1
    : > "$copy/calls"
    run "$copy/cryolite" test --frob
    check "an unknown flag of test" is $status 2
    run "$copy/cryolite" test a b
    check "two patterns" is $status 2
    run "$copy/cryolite" test --all --frob
    check "and after --all" is $status 2
    run "$copy/cryolite" test --help
    check "test --help" has out "PATTERN"
    check "none of which built" is "$(tool_calls)" ""
}

# A test whose tools CI installs is skipped where they are missing, and fails there under CI.
fails_under_ci() {
    mkdir "$scratch/few"
    local tool
    for tool in bash mktemp realpath rm uname; do ln -s "$(command -v $tool)" "$scratch/few/"; done
    for test in arm_test targets_test; do
        run env PATH="$scratch/few" bash "$source/tests/install/$test.sh" "$source" "$scratch"
        check "$test without tools is skipped" has out "skipped: "
        run env PATH="$scratch/few" CI=true bash "$source/tests/install/$test.sh" "$source" "$scratch"
        check "$test without tools fails under CI" is $status 1
        check "... and is not skipped" lacks out "skipped"
        check "... and says what to install" has out "qemu"
    done
}

heals() {
    touch "$copy/broken" "$copy/dsl/layer.h"
    run "$copy/cryolite"
    check "a failed build" is $status 1
    check "shows the compiler's message" has err "dsl/layer.h:7:3: error: broken"
    run "$copy/cryolite"
    check "and is not forgotten" is $status 1
    rm "$copy/broken"
    run "$copy/cryolite"
    check "until it is mended" is $status 0
    : > "$copy/calls"
    touch "$copy/dsl/layer.h"
    NINJA_SLEEPS=5 "$copy/cryolite" > /dev/null 2>&1 &
    local pid=$!
    while [ ! -d "$copy/busy" ]; do sleep 0.05; done
    pkill -KILL -P $pid
    kill -KILL $pid
    wait $pid 2> /dev/null
    rmdir "$copy/busy"
    : > "$copy/calls"
    run "$copy/cryolite"
    check "a set-up that was killed is done again" is "$(tool_calls)" "ninja command"
}

builds_once() {
    touch "$copy/dsl/layer.h"
    export NINJA_SLEEPS=0.5
    "$copy/cryolite" > "$scratch/one" 2>&1 & local one=$!
    "$copy/cryolite" > "$scratch/two" 2>&1 & local two=$!
    wait $one; check "the first of two" is $? 0
    wait $two; check "the second of two" is $? 0
    unset NINJA_SLEEPS
    check "one of them built" is "$(tool_calls)" "ninja command"
    check "the other said that it waits" grep -q "another ./cryolite is setting up" "$scratch/one" "$scratch/two"
}

make_few_tools() { # make_few_tools FOLDER: no compiler, no apt
    local tool
    mkdir -p "$1"
    for tool in bash sh find flock cat mkdir rmdir rm mv cp grep sed awk tail tr cut env sleep uname nproc touch readlink head; do
        ln -sf "$(command -v $tool)" "$1/$tool"
    done
    make_tool "$1/id" 'echo 0'
}

gets_mpi() {
    local tools="$scratch/mpi tools"
    make_few_tools "$tools"
    apt() { # apt BODY: a stand-in, which notes that it was called
        make_tool "$tools/apt-get" 'echo "apt-get $*" >> "'"$copy"'/apt"; case $* in *install*) '"$1"';; esac'
    }
    apt_calls() { grep -c "install.*libopenmpi-dev" "$copy/apt" 2> /dev/null; rm -f "$copy/apt"; }
    begin() { rm -f "$copy/build/bin/libcryolite_mpi.so" "$tools/mpicxx" "$copy/build/.no-mpi"; }
    ranks() { PATH=$tools OMPI_COMM_WORLD_SIZE=2 run "$tools/bash" "$copy/cryolite" train; check "$1: status" is $status 0; }
    builds="cmake -G;ninja command;"
    calls_are() { check "$1" is "$(tool_calls | cut -d' ' -f1,2 | tr '\n' ';')" "$2"; }

    begin
    PATH=$tools run "$tools/bash" "$copy/cryolite" train
    calls_are "one process needs no MPI" ""
    ranks "without MPI and apt"
    calls_are "without MPI and apt the command is left to say so" ""
    begin
    apt "touch '$tools/mpicxx'; chmod +x '$tools/mpicxx'"
    ranks "mpirun of a build without MPI"
    check "MPI is installed" is "$(apt_calls)" 1
    calls_are "and built with, though no source is newer" "$builds"
    ranks "mpirun once more"
    check "nothing is installed again" is "$(apt_calls)" ""
    calls_are "nor built" ""
    begin
    apt "exit 100"
    ranks "MPI cannot be installed"
    check "it was tried" is "$(apt_calls)" 1
    ranks "MPI still cannot be installed"
    check "it is not tried each time" is "$(apt_calls)" ""
    calls_are "and nothing was built" ""
    make_tool "$tools/mpicxx" ""
    ranks "MPI was installed by hand"
    calls_are "it is built with" "$builds"
    begin
    make_tool "$tools/mpicxx" ""
    mv "$copy/.venv/bin/ninja" "$copy/ninja"
    make_tool "$copy/.venv/bin/ninja" 'echo "ninja ${@: -1}" >> "'"$copy"'/calls"' # as where CMake finds no MPI
    ranks "an mpicxx that does not work here"
    calls_are "it is tried" "$builds"
    ranks "an mpicxx that still does not work"
    calls_are "and not each time" ""
    mv "$copy/ninja" "$copy/.venv/bin/ninja"
}

# Whoever runs the tests has what they need: none of it may be taken for missing.
finds_what_is_installed() {
    run bash -c 'root=$1 build=$2; . "$root/cmake/setup.sh"; missing_packages' - "$source" "$scratch"
    check "what is installed is found" is "$status:$(cat "$scratch/out")" "0:"
    run bash -c 'root=$1 build=$2; . "$root/cmake/setup.sh"; header_packages="no/such.h=libnone-dev"; missing_packages' - "$source" "$scratch"
    check "and what is not is named" is "$(cat "$scratch/out")" "libnone-dev "
}

names_what_is_missing() {
    local tools="$scratch/few tools"
    make_few_tools "$tools"
    rm "$copy"/build/.packages-* "$copy/build/.ready"
    PATH=$tools run "$tools/bash" "$copy/cryolite" train
    check "without a compiler" is $status 1
    check "it is named" has err "missing system packages: g++ lld"
    check "with the command that installs it" has err "apt-get install g++ lld"
    check "nothing was built" is "$(tool_calls)" ""
    # No network: pip has no index, and a folder of wheels that is empty.
    for what in command tests; do echo "$copy" > "$copy/build/.packages-$what"; done
    rm "$copy/.venv/.ready"
    run "$copy/cryolite" train
    check "without network" is $status 1
    check "the wheels are named" has err "needed: halide=="
    check "and what helps" has err "PIP_FIND_LINKS=DIR"
    check "pip's own words are shown" has err "ERROR: No matching distribution found for halide=="
}

answers_before_it_is_built() {
    rm -rf "$copy/build"
    run "$copy/cryolite" --version
    check "--version" grep -qE '^cryolite [0-9]+\.[0-9]+' "$scratch/out"
    run "$copy/cryolite" --help
    check "--help" has out "Usage: cryolite"
    local name names
    names=$(sed -n 's/^    {"\([a-z]*\)", .*, run_.*/\1/p' "$source/apps/cryolite/cli/dispatch.cpp" | tr '\n' ' ')
    check "the commands are known" is "$names" "train bench tune sample explain compile export new check fuzz runs cache test "
    for name in $names; do check "--help lists $name" has out "  $name"; done
    check "and none that is not there" lacks out serve
    run "$copy/cryolite" train --help
    check "train --help" has out "This checkout is not built yet"
    run "$copy/cryolite"
    check "no command" is "$status" 2
    check "they are named" has err "a command is required, one of train, bench, "
    run "$copy/cryolite" trian
    check "no such command" is "$status" 2
    check "it is named" has err "there is no command \"trian\" (did you mean train?): expected train, "
    run "$copy/cryolite" zebra
    check "a word that is near none" has err "there is no command \"zebra\": expected train, "
    run "$copy/cryolite" 'a"b\n*'
    check "an odd word" has err "there is no command \"a\"b\\n*\": expected train, "
    run "$copy/cryolite" train gtp
    check "no such app" is "$status" 2
    check "the nearest is named" has err "there is no app \"gtp\" (did you mean gpt?): expected digits, gpt, llama, vision, or the path of a .cpp of your own"
    check "none of them made a build folder" test ! -e "$copy/build"
}

make_copy "$scratch/a copy"
builds_when_needed
finds_itself
adds_no_delay
runs_tests
fails_under_ci
heals
builds_once
gets_mpi
finds_what_is_installed
names_what_is_missing
answers_before_it_is_built
if [ $failures -gt 0 ]; then
    echo "$failures checks failed"
    exit 1
fi
echo "all checks passed"
