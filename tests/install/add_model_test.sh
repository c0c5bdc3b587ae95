#!/bin/bash
# cryolite_add_model compiles a bundle again where a file of its PARAMS changes, and else not. Its command is a stand-in.
# usage: add_model_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
source=$1
known() { sed -n "s/^$1:[A-Z]*=//p" "$2/CMakeCache.txt"; }
cmake=$(known CMAKE_COMMAND "$2") ninja=$(known CMAKE_MAKE_PROGRAM "$2")
cat > command.sh << 'END'
#!/bin/bash
while [ $# -gt 0 ]; do [ "$1" = --out ] && folder=$2; shift; done
mkdir -p "$folder" && touch "$folder/kernels.so" "$folder/config.toml" && date +%s%N > "$folder/plan.json"
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
END
"$cmake" -G Ninja -S project -B build -DCMAKE_MAKE_PROGRAM="$ninja" > log 2>&1 || { fail "it does not configure: $(tail -3 log)"; exit 1; }
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

[ $failures = 0 ] && echo "bundles follow their files"
exit $((failures > 0))
