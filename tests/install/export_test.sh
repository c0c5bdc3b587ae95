#!/bin/bash
# A C library that trains: its example in C and in Python has the losses of `train` bit by bit; it needs libc and libm; it keeps its
# promises of memory, instances and arguments, random ones too, under sanitizers; what cannot be exported is refused.
# usage: export_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
source=$1 build=$2
tiny_gpt=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --cache "$work/cache")
tiny=("${tiny_gpt[@]}")

app=gpt
losses_of_train() { # losses_of_train FLAGS...: by vectors, as a library has no tiles
    rm -rf run
    "$command" train $app "${tiny[@]}" --steps 20 "$@" --target vectors --eval-every 0 --checkpoint-every 0 --json --out run 2> err | sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/step \1  loss \2/p'
}
"$command" export gpt "${tiny[@]}" --steps 20 --warmup 100 --order sequential --out gptlib 2> err || { fail "export: $(cat err)"; exit 1; }
losses_of_train --warmup 100 --order sequential > expected
[ "$(wc -l < expected)" = 20 ] || fail "train: $(cat err)"

# --- The examples -----------------------------------------------------------------------------------
make -C gptlib > log 2>&1 || fail "make: $(cat log)"
grep -q warning: log && fail "the example warns: $(cat log)"
(cd gptlib && ./example) > got || fail "the example ended with $?"
cp got plain
head -n 20 got | cmp - expected || fail "other losses than train's: $(head -n 2 got expected)"
python3 gptlib/example.py > got || fail "the example in Python failed"
cmp got expected || fail "other losses in Python than train's"
[ "$(wc -l < gptlib/example.c)" -le 60 ] || fail "the example has more than 60 lines"
printf '#include "gpt.h"\n' > header.c
cc -std=c99 -pedantic -Wall -Wextra -Werror -I gptlib -c header.c && c++ -Wall -Werror -I gptlib -x c++ -c header.c || fail "the header"

# --- What it needs, and what it shows ---------------------------------------------------------------
readelf -d gptlib/libgpt.so | grep NEEDED | grep -vE 'libm\.so|libc\.so' && fail "it needs more than libc and libm"
nm -D --defined-only gptlib/libgpt.so | grep -v ' T gpt_' && fail "the shared library shows more than its functions"
nm --defined-only gptlib/libgpt.a | grep -E ' [A-Z] ' | grep -v ' T gpt_' && fail "the archive shows more than its functions"
[ "$(size gptlib/libgpt.so | awk 'NR == 2 { print $1 }')" -le 1000000 ] || fail "more than 1 MB of code"

# --- Its promises -----------------------------------------------------------------------------------
checks=$source/tests/install/export/library_checks.c
cc -std=c11 -O1 -Wall -Wextra -DWRAPPED -I gptlib -o checks "$checks" gptlib/libgpt.a -lm -lpthread \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free || fail "the checks do not build"
./checks gptlib/gpt_weights.safetensors || fail "a promise"
sanitize="-std=gnu11 -g -O1 -fsanitize=address,undefined -fno-sanitize-recover=all -I gptlib"
cc $sanitize -o sanitized "$checks" gptlib/src/*.c gptlib/src/kernels_host.o -lm -lpthread || fail "the sources do not build again"
./sanitized gptlib/gpt_weights.safetensors || fail "a promise, under sanitizers"
fuzz=$source/tests/install/export/library_fuzz.c
fuzzed() { # fuzzed FOLDER TIMES: calls with random arguments, under sanitizers
    cc ${sanitize/gptlib/$1} -Wall -Wextra -o fuzzer "$fuzz" "$1"/src/*.c "$1/src/kernels_host.o" -lm || { fail "$1: the fuzzer does not build"; return; }
    ./fuzzer "$1/gpt_weights.safetensors" "$2" > out 2>&1 || fail "$1: $(tail -n 20 out)"
}
fuzzed gptlib 4000
# A thread that has no room for a kernel's temporaries: an error, whichever thread it is.
"$command" export gpt "${tiny[@]}" --context 64 --out starved 2> err || fail "export with temporaries: $(cat err)"
grep -q 'scratch_bytes = [1-9]' starved/src/tables_host.c || fail "no kernel has temporaries"
sed -i 's/\.scratch_bytes = [0-9]*/.scratch_bytes = 0/' starved/src/tables_host.c
cc ${sanitize/gptlib/starved} -o starving "$checks" starved/src/*.c starved/src/kernels_host.o -lm -lpthread || fail "the starved library does not build"
./starving starved/gpt_weights.safetensors starved || fail "temporaries that have no room"

# --- Other steps ------------------------------------------------------------------------------------
same_losses() { # same_losses FLAGS...: the example's are those of train with the same flags; leaves the library in other/
    rm -rf other
    "$command" export $app "${tiny[@]}" --steps 20 "$@" --out other 2> err || { fail "export $*: $(cat err)"; return; }
    make -C other > log 2>&1 && (cd other && ./example) > got || fail "$*: $(tail -2 log)"
    losses_of_train "$@" > expected
    [ "$(wc -l < expected)" = 20 ] && head -n 20 got | cmp - expected || fail "$*: other losses than train's"
    python3 other/example.py | cmp - expected || fail "$*: other losses in Python than train's"
}
same_losses --warmup 5
same_losses --warmup 0 --min-lr 0 --seed 3
same_losses --accumulate 2 --warmup 3 --clip 0.5 --ema 0.9
fuzzed other 1000
yes 'Few words, which 20 steps read again and again.' | head -n 3 > few.txt
same_losses --data few.txt --val few.txt --order sequential
same_losses --warmup 100 --update forward --clip 0 --precision bf16
cc -std=c11 -O1 -DWRAPPED -I other -o other_checks "$checks" other/libgpt.a -lm -lpthread \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free || fail "the checks do not build for bf16"
./other_checks other/gpt_weights.safetensors || fail "a promise, in bf16"
fuzzed other 1000

# --- A model of a table's rows -----------------------------------------------------------------------
app=digits tiny=(--channels 4 --batch 8 --cache "$work/cache")
same_losses
same_losses --accumulate 3 --seed 2
grep -q "^#define DIGITS_FEATURES 512 " other/digits.h || fail "its header: $(grep define other/digits.h)"
printf 'a,b,c\n%s\n' "$(for i in $(seq 40); do echo "$i,1,2"; done)" > numbers.csv
"$command" export "$source/tests/programs/regressor.cpp" --data numbers.csv --cache "$work/empty" --out none 2> err
[ $? = 2 ] && grep -q "predicts numbers, but a library takes only ids as targets" err || fail "a model that predicts numbers: $(cat err)"
find "$work/empty" -name '*.o' 2> /dev/null | grep . && fail "a refused library's kernels were compiled"
app=gpt tiny=("${tiny_gpt[@]}")

# --- Names -------------------------------------------------------------------------------------------
named() { # named NAME: the program gpt under another name
    cat > "$1" << END
#!/bin/bash
set -o pipefail
"$build/generators/gpt" "\$@" | sed 's/"name":"gpt"/"name":"$1"/'
END
    chmod +x "$1"
}
for name in block plan step loss m; do # of the library's own types, and of the example's variables
    named $name
    "$command" export "$work/$name" "${tiny[@]}" --steps 20 --warmup 100 --order sequential --out lib_$name 2> err || fail "a program called $name: $(tail -3 err)"
    [ -e lib_$name/lib$name.a ] || fail "a program called $name: $(ls lib_$name)"
    make -C lib_$name > log 2>&1 && (cd lib_$name && ./example) > got || fail "a program called $name: $(tail -2 log)"
    cmp got plain || fail "a program called $name: other losses"
done
for name in int class main printf exit; do
    named $name
    "$command" export "$work/$name" "${tiny[@]}" --cache "$work/empty" --out none 2> err
    [ $? = 2 ] && grep -q "the program is called '$name', which is a name of C or C++ already" err || fail "a program called $name: $(cat err)"
done

refused() { # refused WORDS FLAGS...
    "$command" export gpt "${tiny[@]}" "${@:2}" > out 2> err
    [ $? = 2 ] || fail "export ${*:2}: not refused"
    grep -qF -- "$1" err || fail "export ${*:2}: said '$(cat err)', expected '$1'"
}
refused "export needs --out DIR"
refused "is there already" --out gptlib
refused "leave --workers out" --workers 2 --out none
refused "leave out dropout and batch norm" --dropout 0.1 --cache "$work/empty" --out none
[ ! -e none ] || fail "a refused library was written"
find "$work/empty" -name '*.o' 2> /dev/null | grep . && fail "a refused library's kernels were compiled"

[ $failures = 0 ] && echo "a library trains without us"
exit $((failures > 0))
