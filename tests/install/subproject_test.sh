#!/bin/bash
# Cryolite within another project, by add_subdirectory and by FetchContent: what links the client trains with a bundle that it
# finds by name, its own settings stay, and nothing is built that it does not ask for. With the compiler, a new project builds
# its model's kernels there too, which takes long: the compiler is compiled again.
# usage: subproject_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
source=$1
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cmake=$(known CMAKE_COMMAND "$2") ninja=$(known CMAKE_MAKE_PROGRAM "$2")

tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --cache "$work/cache")
mkdir app
cat > app/app.cpp << 'EOF'
#include "client/bundle_folder.h"
#include "runtime/device/cpu/cpu_device.h"
#include "runtime/io/error.h"
#include "runtime/train/trainer.h"
#ifdef __STRICT_ANSI__
#error "the standard of Cryolite's own sources is not that of others"
#endif
int main(int argc, char **argv) try {
    using namespace cryolite;
    auto device = make_cpu_device(1);
    Trainer trainer(std::make_shared<const Bundle>(bundle_folder(argc > 1 ? argv[1] : "tiny")), *device);
    trainer.initialise(1);
    trainer.set("lr", 1e-2);
    Batch batch;
    batch.tokens.assign(16, 3), batch.targets.assign(16, 5);
    double first = 0, loss = 0;
    for (int i = 0; i < 5; i++) loss = trainer.step([&]() -> const Batch & { return batch; }, 1), first = i ? first : loss;
    printf("%s\n", loss < first ? "it learns" : "it does not learn");
} catch (const std::exception &e) {
    return printf("%s\n", e.what()), 1;
}
EOF
cat > app/CMakeLists.txt << EOF
cmake_minimum_required(VERSION 3.25...3.28)
project(app LANGUAGES CXX)
set(CRYOLITE_COMPILER OFF CACHE BOOL "")
if(HOW STREQUAL fetched)
  include(FetchContent)
  FetchContent_Declare(cryolite SOURCE_DIR "$source")
  FetchContent_MakeAvailable(cryolite)
else()
  add_subdirectory("$source" cryolite)
endif()
add_executable(app app.cpp)
set_target_properties(app PROPERTIES CXX_EXTENSIONS ON)
target_link_libraries(app PRIVATE Cryolite::client)
EOF

"$command" compile "${tiny[@]}" --out tiny.bundle > out 2> err || fail "compile: $(cat err)"
ls tiny.bundle | sort | tr '\n' ' ' > files
[ "$(cat files)" = "config.toml kernels.so plan.json " ] || fail "a bundle has $(cat files)"
for how in added fetched; do
    "$cmake" -G Ninja -S app -B $how -DHOW=$how -DCMAKE_MAKE_PROGRAM="$ninja" -DCMAKE_BUILD_TYPE=None \
        -DCMAKE_CXX_FLAGS=-O0 -DCMAKE_EXPORT_COMPILE_COMMANDS=ON > log 2>&1 || { cat log; fail "$how: it does not configure"; exit 1; }
    grep app.cpp $how/compile_commands.json | grep -oE -- '-(Wall|Wextra|fopenmp|std=c\+\+20|O1)\b' > leaks
    [ -s leaks ] && fail "$how: the app is compiled with $(tr '\n' ' ' < leaks)"
    "$cmake" --build $how --target help | grep -E '^(command|tests_runtime|fuzzers|gpt_train_test):' && fail "$how: targets of common names, or tests"
    "$ninja" -C $how -n all | grep -E 'apps/(cryolite|gpt)/|libcryolite_command' && fail "$how: all builds the command"
done
"$cmake" --build added --target app --parallel "$(nproc)" > log 2>&1 || { grep -m 5 -i error log; fail "it does not build"; exit 1; }
app=$work/added/app
readelf -d "$app" | grep -iE 'halide|llvm' && fail "the app links a compiler"
# What kernels need; those for a GPU's are there where the app's units hold that device.
nm -D --defined-only "$app" | grep ' T halide_' | grep -vc ' T halide_cuda_' | grep -qx 4 || fail "what the app exports: $(nm -D --defined-only "$app" | grep ' T ')"
nm -D --defined-only "$app" | grep -c ' T cryolite_multiply_\(tiles\|split\)$' | grep -qx 2 || fail "the app does not export what multiplies tiles"
[ "$(nm -D --defined-only "$app" | grep -c ' T _ZN8cryolite')" = 0 ] || fail "the app exports all of its functions"

# Linked by hand without what the target says, it is told what to do.
link=$("$ninja" -C added -t commands app | tail -n 1 | sed 's/"*-Wl,--\(export-dynamic-symbol\|undefined\)=[^ ]*//g; s/-o app /-o bare /')
(cd added && eval "$link") || fail "it does not link by hand"
CRYOLITE_BUNDLES=$work added/bare > out && fail "kernels have found functions that the program does not export"
grep -qF "the program has to export it: link the CMake target Cryolite::runtime" out || fail "without exports: $(cat out)"

# A bundle by its name: there is none, in a folder that is named, beside the app, one that is not whole.
"$app" > out && fail "without a bundle it trains"
grep -qF "there is no bundle tiny.bundle in $work/added" out || fail "without a bundle: $(cat out)"
CRYOLITE_BUNDLES=/nowhere:$work "$app" > out || fail "by CRYOLITE_BUNDLES: $(cat out)"
cp -r tiny.bundle added/ && "$app" > out || fail "beside the app: $(cat out)"
grep -qx "it learns" out || fail "the app says $(cat out)"
mkdir -p installed/bin installed/lib/cryolite/bundles
cp "$app" installed/bin/ && cp -r tiny.bundle installed/lib/cryolite/bundles/ && installed/bin/app > out || fail "installed: $(cat out)"
rm added/tiny.bundle/kernels.so
"$app" > out && fail "with half a bundle it trains"
grep -qF "tiny.bundle has no kernels.so" out || fail "half a bundle: $(cat out)"
"$app" ../tiny > out && fail "a path is taken for a name"

# Where a bundle may be written.
refused() { # refused WORDS ARGUMENTS...
    local words=$1
    shift
    "$command" compile "${tiny[@]}" "$@" > out 2> err
    [ $? = 2 ] || fail "compile $*: not refused"
    grep -qF -- "$words" err || fail "compile $*: said '$(cat err)', expected '$words'"
}
refused "compile needs --out DIR"
refused "holds other files" --out app
refused "is not a folder" --out log

# --- With the compiler: a new project that has Cryolite as a folder, not as a package ------------------
"$command" new demo > out 2> err || fail "new: $(cat err)"
fetched="include(FetchContent)\\nFetchContent_Declare(cryolite SOURCE_DIR \"$source\")\\nFetchContent_MakeAvailable(cryolite)"
for how in "add_subdirectory(\"$source\" cryolite)" "$fetched"; do
    cp -r demo project
    sed -i "s|^find_package(Cryolite.*|$how|" project/CMakeLists.txt
    grep -q "$source" project/CMakeLists.txt || fail "a new project has no find_package"
    rm -rf with_compiler
    "$cmake" -G Ninja -S project -B with_compiler -DCMAKE_MAKE_PROGRAM="$ninja" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O0 \
        -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$work/with_compiler/out" > log 2>&1 || { fail "with the compiler: $(tail -3 log)"; continue; }
    grep -A3 "CMake Warning" log && fail "with the compiler, configuring warns"
    rm -rf project
done
cp -r demo project
sed -i "s|^find_package(Cryolite.*|add_subdirectory(\"$source\" cryolite)|" project/CMakeLists.txt
if "$cmake" -S project -B with_compiler > log 2>&1 && "$cmake" --build with_compiler --parallel "$(nproc)" > log 2>&1; then
    ldd with_compiler/out/demo | grep -iE 'halide|llvm' && fail "the app of a model links a compiler"
    with_compiler/out/demo project/data.txt 3 > out 2>&1 && grep -q "^step 3  loss " out || fail "it does not train: $(cat out)"
else
    fail "with the compiler it does not build: $(grep -m 5 -i error log)"
fi

[ $failures = 0 ] && echo "it is a part of other projects"
exit $((failures > 0))
