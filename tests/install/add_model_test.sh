#!/bin/bash
# cryolite_add_model compiles a bundle again where a file of its PARAMS changes, and else not. cryolite_add_bundle compiles
# several of one program, beside the executables, from where they are installed. Its command is a stand-in.
# usage: add_model_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
source=$1
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cmake=$(known CMAKE_COMMAND "$2") ninja=$(known CMAKE_MAKE_PROGRAM "$2")
cat > command.sh << 'END'
#!/bin/bash
all=$*
while [ $# -gt 0 ]; do [ "$1" = --out ] && folder=$2; shift; done
mkdir -p "$folder" && echo "$all" > "$folder/flags" && touch "$folder/kernels.so" "$folder/config.toml" && date +%s%N > "$folder/plan.json"
END
chmod +x command.sh
mkdir project && printf 'int main() { return 0; }\n' > project/m.cpp
files=(my.txt val.txt init.safetensors tokenizer.json my.schedule my.toml)
for file in "${files[@]}"; do echo text > "project/$file"; done
cat > project/CMakeLists.txt << END
cmake_minimum_required(VERSION 3.28)
project(models LANGUAGES CXX)
add_library(Cryolite::compiler INTERFACE IMPORTED)
add_library(Cryolite::client INTERFACE IMPORTED)
add_executable(Cryolite::command IMPORTED)
set_target_properties(Cryolite::command PROPERTIES IMPORTED_LOCATION "$work/command.sh")
include("$source/cmake/add_model.cmake")
cryolite_add_model(m SOURCES m.cpp BUNDLE PARAMS batch=8 data=my.txt val=val.txt init=init.safetensors
                   tokenizer=tokenizer.json schedule=my.schedule config=my.toml)
cryolite_add_model(n SOURCES m.cpp BUNDLE PARAMS tokenizer=gpt2)
cryolite_add_bundle(small FROM m PRESET nano PARAMS batch=2)
cryolite_add_bundle(large FROM m PARAMS batch=64 OUTPUT_DIRECTORY elsewhere)
add_executable(app m.cpp)
target_link_libraries(app PRIVATE small_bundle large_bundle)
install(TARGETS app)
foreach(bundle small large)
  install(DIRECTORY \$<TARGET_PROPERTY:\${bundle}_bundle,CRYOLITE_BUNDLE_FOLDER> DESTINATION lib/cryolite/bundles)
endforeach()
END
"$cmake" -G Ninja -S project -B build -DCMAKE_MAKE_PROGRAM="$ninja" > log 2>&1 || { fail "it does not configure: $(tail -3 log)"; exit 1; }
grep -A3 "CMake Warning" log && fail "configuring warns"
bundle() { # what m's bundle is after a build
    "$cmake" --build build --target m_kernels n_kernels > log 2>&1 || fail "it does not build: $(tail -3 log)"
    cat build/m.bundle/plan.json
}
before=$(bundle)
[ "$(bundle)" = "$before" ] || fail "a bundle is compiled again where nothing has changed"
for file in "${files[@]}"; do
    sleep 0.05
    echo other > "project/$file"
    after=$(bundle)
    [ "$after" != "$before" ] || fail "$file changed, and its bundle is stale"
    before=$after
done

# --- Several bundles of one program ------------------------------------------------------------------
is() { # is FOLDER FLAGS: a bundle that was compiled with these
    grep -qF -- " $2 --out" "$1/flags" || fail "$1: $(cat "$1/flags" 2>&1)"
}
"$cmake" --build build --target app > log 2>&1 || fail "an app of two bundles does not build: $(tail -3 log)"
is build/small.bundle "--preset nano --batch=2"
is build/elsewhere/large.bundle "--batch=64"
"$cmake" --build build > log 2>&1 && "$cmake" --install build --prefix P > log 2>&1 || fail "it does not install: $(tail -3 log)"
[ -x P/bin/app ] && is P/lib/cryolite/bundles/small.bundle "--batch=2" && is P/lib/cryolite/bundles/large.bundle "--batch=64"
# Executables in one folder: bundles lie there, too.
for generator in Ninja "Ninja Multi-Config"; do
    rm -rf out
    "$cmake" -G "$generator" -S project -B out -DCMAKE_MAKE_PROGRAM="$ninja" -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$work/out/bin" > log 2>&1 ||
        fail "$generator: it does not configure: $(tail -3 log)"
    "$cmake" --build out --target app > log 2>&1 || fail "$generator: it does not build: $(tail -3 log)"
    bin=$(dirname "$(find out/bin -name app)")
    is "$bin/small.bundle" "--batch=2"
done
[ "$bin" = out/bin/Debug ] || fail "executables of several configurations are in $bin"
denied() { # denied WORDS LINE
    cp -r project denied && echo "$2" >> denied/CMakeLists.txt
    "$cmake" -G Ninja -S denied -B refused -DCMAKE_MAKE_PROGRAM="$ninja" > log 2>&1 && fail "'$2' is taken"
    tr -s ' \n' ' ' < log | grep -qF -- "$1" || fail "'$2': said $(cat log), expected '$1'"
    rm -rf denied refused
}
denied "needs FROM MODEL, a target of cryolite_add_model, not 'x'" "cryolite_add_bundle(a FROM x)"
denied "needs FROM MODEL, a target of cryolite_add_model, not ''" "cryolite_add_bundle(a)"
denied "SPEED is not expected here" "cryolite_add_bundle(a FROM m SPEED)"

[ $failures = 0 ] && echo "bundles follow their files, and lie beside their apps"
exit $((failures > 0))
