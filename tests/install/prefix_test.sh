#!/bin/bash
# An installation that was moved: its command trains, also a .cpp of one's own; a new project builds against it, trains, and its
# app links no compiler; runtime and client alone need no Halide.
# usage: prefix_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
source=$1
unset CRYOLITE_ROOT
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cmake=$(known CMAKE_COMMAND "$2")
configure() { # configure SOURCE BUILD FLAGS...
    "$cmake" -G Ninja -S "$1" -B "$2" -DCMAKE_MAKE_PROGRAM="$(known CMAKE_MAKE_PROGRAM "$build")" "${@:3}" > log 2>&1
}
build=$2

"$cmake" --install "$2" --prefix "$work/first" > log 2>&1 || { tail -3 log; fail "it does not install"; exit 1; }
mv first prefix
if grep -rlIF -e "$2/" -e "$source/.venv" prefix/lib/cmake prefix/lib/cryolite/*.json prefix/bin; then fail "it names the build"; fi
if grep -rlIF "$work/first" prefix/lib/cmake prefix/lib/cryolite/*.json; then fail "it names where it was installed"; fi

# --- The command ------------------------------------------------------------------------------------
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --steps 3 --eval-every 0 --cache "$work/cache")
prefix/bin/cryolite train "${tiny[@]}" --json --out run > out 2> err || fail "train: $(cat err)"
[ "$(grep -c '"event":"step"' out)" = 3 ] || fail "it does not train: $(cat out)"
cp "$source/tests/programs/my_model.cpp" .
prefix/bin/cryolite train my_model.cpp --layers 1 --heads 2 --width 16 --context 8 --batch 2 --steps 2 --eval-every 0 \
    --cache "$work/cache" --json --out mine > out 2> err || fail "a .cpp of one's own: $(cat err)"
[ "$(grep -c '"event":"step"' out)" = 2 ] || fail "it does not train a .cpp"

# --- An archive of it, unpacked elsewhere -----------------------------------------------------------
(cd "$2" && "$(dirname "$cmake")/cpack" -G TGZ -B "$work/packed") > log 2>&1 || { tail -3 log; fail "it does not pack"; }
mkdir unpacked && tar -xzf packed/cryolite-*-"$(uname -s)-$(uname -m)".tar.gz -C unpacked --strip-components 1 || fail "it does not unpack"
grep -q "bin/cryolite train" unpacked/share/doc/cryolite/README.md || fail "the archive does not say what to do with it"
unpacked/bin/cryolite train "${tiny[@]}" --json --out again > out 2> err || fail "train from the archive: $(cat err)"
[ "$(grep -c '"event":"step"' out)" = 3 ] || fail "it does not train from an archive: $(cat out)"
cmp run/model.safetensors again/model.safetensors || fail "other weights from the archive"
# A newcomer: 20 steps of nano, 20 s after unpacking, with an empty cache. The better of two, as other tests run beside.
best=
for try in 1 2; do
    begin=$(date +%s%N)
    XDG_CACHE_HOME=$work/empty$try unpacked/bin/cryolite train --steps 20 --eval-every 0 --json --out nano$try > out 2> err || fail "nano from the archive: $(cat err)"
    took=$((($(date +%s%N) - begin) / 1000000))
    [ "$(grep -c '"event":"step"' out)" = 20 ] || fail "nano from the archive: $(tail -3 out)"
    [ -n "$best" ] && [ "$best" -le $took ] || best=$took
    [ "$best" -gt 20000 ] || break
done
echo "nano, 20 steps from an unpacked archive: $best ms"
[ "$best" -le 20000 ] || fail "20 steps of nano end $best ms after unpacking, expected at most 20000"
rm -rf packed unpacked

# --- A project of one's own -------------------------------------------------------------------------
refused() { # refused WORDS ARGUMENTS...
    prefix/bin/cryolite new "${@:2}" > out 2> err
    [ $? = 2 ] || fail "new ${*:2}: not refused"
    grep -qF -- "$1" err || fail "new ${*:2}: said '$(cat err)', expected '$1'"
}
refused "cannot be the name of a project" 'My Model'
refused "cannot be the name of a project" '1st'
refused "cannot be the name of a project" ../up
for name in install edit_cache rebuild_cache preinstall package_source; do refused "target that CMake has already" $name; done
refused "NAME" --out x
refused "is there already" demo --out run
[ ! -e x ] || fail "a refused project was written"
prefix/bin/cryolite new demo --out "my demo" 2> err || fail "new: $(cat err)"
configure "my demo" demo-build -DCMAKE_PREFIX_PATH="$work/prefix" || { tail log; fail "it does not configure"; exit 1; }
"$cmake" --build demo-build > log 2>&1 || { tail log; fail "it does not build"; exit 1; }
grep -i warning: log && fail "its build warns"
ldd demo-build/demo | grep -iE 'halide|llvm' && fail "its app links a compiler"
"$(dirname "$cmake")/ctest" --test-dir demo-build --output-on-failure > log 2>&1 || { cat log; fail "its tests fail"; }
grep -q "100% tests passed.* out of 2" log || fail "its tests: $(cat log)"

# --- What CMake says --------------------------------------------------------------------------------
asks() { # asks TEXT FLAGS...: a project with this text
    mkdir -p asks && printf 'cmake_minimum_required(VERSION 3.28)\nproject(asks LANGUAGES CXX)\n%s\n' "$1" > asks/CMakeLists.txt
    rm -rf asks-build
    configure asks asks-build -DCMAKE_PREFIX_PATH="$work/prefix" "${@:2}"
}
denied() { # denied WORDS TEXT
    if asks "$2"; then fail "'$2' is taken"; fi
    tr -s ' \n' ' ' < log | grep -qF -- "$1" || fail "'$2': said $(cat log), expected '$1'"
}
need='find_package(Cryolite 0.1 REQUIRED COMPONENTS'
denied 'compatible with requested version "0.2"' 'find_package(Cryolite 0.2 REQUIRED)'
denied 'no component gpu: expected runtime, client, compiler or command' "$need gpu)"
nowhere='set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)
set(CMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH OFF)'
denied 'the library pcre2-8 is missing: install it, on Debian as libpcre2-dev' "$nowhere
$need client)"
denied 'the library utf8proc is missing: install it, on Debian as libutf8proc-dev' "set(CRYOLITE_LIBRARY_pcre2-8 there)
$nowhere
$need client)"
denied 'needs the compiler' "$need client)
cryolite_add_model(m SOURCES m.cpp)"
denied 'needs SOURCES' "$need compiler)
cryolite_add_model(m)"
denied 'say how the bundle is compiled; add BUNDLE' "$need compiler)
cryolite_add_model(m SOURCES m.cpp PRESET nano)"
denied 'SPEED is not expected here' "$need compiler)
cryolite_add_model(m SOURCES m.cpp BUNDLE SPEED)"

# --- Runtime and client alone -----------------------------------------------------------------------
for component in runtime client; do
    "$cmake" --install "$2" --prefix "$work/alone" --component $component > log 2>&1 || fail "component $component: $(tail -1 log)"
done
find alone -iname '*halide*' ! -path '*/runtime/halide*' ! -name 'halide_runtime*' | grep . && fail "the runtime brings of Halide"
mv prefix hidden
asks "list(PREPEND CMAKE_PREFIX_PATH \"$work/alone\")
$need client)
add_executable(app \"$work/my demo/train.cpp\")
target_link_libraries(app Cryolite::client)" || { cat log; fail "the runtime alone is not found"; }
"$cmake" --build asks-build > log 2>&1 || { tail log; fail "an app does not build with the runtime alone"; }
CRYOLITE_BUNDLES=$work/demo-build asks-build/app "my demo/data.txt" 2 > out || fail "it does not train: $(cat out)"
denied 'the component compiler was not installed' "list(PREPEND CMAKE_PREFIX_PATH \"$work/alone\")
$need compiler)"

[ $failures = 0 ] && echo "it is installed, moved and used"
exit $((failures > 0))
