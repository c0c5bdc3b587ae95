#!/bin/bash
# A library with several instruction sets chooses by the processor; their losses agree to 1e-5. What cannot be is refused.
# usage: targets_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
. "$1/tests/install/export/targets.sh"
command -v qemu-x86_64 > /dev/null || skip_unless_ci "qemu-x86_64 is missing: install qemu-user"

# --- Refused, before anything is compiled -------------------------------------------------------------
refused 2 '--target is "arm64", expected auto or host, vectors, baseline, avx2, avx512, arm-64-linux, sm_80' export gpt "${tiny[@]}" --target arm64 --out none
refused 2 "arm-64-linux are for different machines" export gpt "${tiny[@]}" --target avx2,arm-64-linux --out none
refused 2 "--target sm_80 is for --device cuda, not for cpu" export gpt "${tiny[@]}" --target baseline,sm_80 --out none
refused 2 "only export takes several" train gpt "${tiny[@]}" --target avx2,baseline --out none
[ ! -e none ] || fail "a refused library was written"

# --- Several instruction sets -------------------------------------------------------------------------
"$command" export gpt "${tiny[@]}" --target x86-64 --out gptlib 2> err || { fail "export: $(cat err)"; exit 1; }
gcc -O1 -Wall -Wextra -I gptlib -o train_with "$train_with" gptlib/libgpt.a -lm || { fail "it does not link"; exit 1; }
(cd gptlib && make -s && ./example) | head -n 20 > this || fail "the example"
has() { grep -m 1 '^flags' /proc/cpuinfo | tr ' ' '\n' | grep -qx "$1"; }
best=baseline
has avx2 && has fma && has f16c && best=avx2
has avx512f && has avx512bw && has avx512dq && has avx512vl && has avx512cd && [ $best = avx2 ] && best=avx512
./train_with gptlib > got || fail "it does not train by itself"
[ "$(head -n 1 got)" = $best ] || fail "it chose $(head -n 1 got), this processor has $best"
[ "$(uniq -c got | wc -l)" = 21 ] && tail -n 20 got | cmp - this || fail "other losses than the example's"
known=" baseline avx2 avx512 "
for set in $known; do
    ./train_with gptlib $set > "$set" 2> err
    status=$?
    case ${known%%" $best "*}" $best " in
    *" $set "*)
        [ $status = 0 ] && [ "$(head -n 1 $set)" = $set ] || { fail "$set: $(cat err)"; continue; }
        sed -i 1d $set
        near $set $set this
        ;;
    *) [ $status = 7 ] || fail "$set: this processor lacks it, and it ended with $status" ;;
    esac
done
# Losses of so few steps may be equal all the same: the instructions tell.
multiply_adds() { objdump -d "gptlib/src/kernels_$1.o" | grep -c vfmadd; }
[ "$(multiply_adds baseline)" = 0 ] || fail "the baseline has instructions of avx2"
[ "$(multiply_adds avx2)" -gt 0 ] || fail "avx2 has no multiply-add: the baseline's code"
./train_with gptlib sse9 2> err && fail "an instruction set that there is not"
# Processors that have less: what is chosen runs there, with the same bits.
emulated() { # emulated PROCESSOR SET
    qemu-x86_64 -cpu "$1" ./train_with gptlib > got 2> err || fail "on $1: $(cat err)"
    [ "$(head -n 1 got)" = "$2" ] || fail "on $1 it chose $(head -n 1 got), expected $2"
    tail -n 20 got | cmp - "$2" || fail "on $1: other losses"
}
emulated Nehalem baseline
[ $best = baseline ] || emulated Haswell avx2
for set in $known; do
    nm --defined-only "gptlib/src/kernels_$set.o" | grep -E ' [A-TV-Z] ' | grep -v ' T cryolite_.*_argv' && fail "$set: kernels show more than themselves"
done

# --- How large it is ----------------------------------------------------------------------------------
"$command" export gpt --preset nano --cache "$work/cache" --target x86-64 --out nanolib 2> err || fail "export of nano: $(cat err)"
for set in $known; do
    bytes=$(size "nanolib/src/kernels_$set.o" | awk 'NR == 2 { print $1 }')  # code and constants
    echo "nano, $set: $bytes bytes"
    [ "$bytes" -gt 0 ] && [ "$bytes" -le 1000000 ] || fail "nano, $set: more than 1 MB of code: $bytes"
done

[ $failures = 0 ] && echo "libraries of several instruction sets train"
exit $((failures > 0))
