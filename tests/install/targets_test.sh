#!/bin/bash
# Libraries for other processors: one for ARM is linked by Debian's cross compiler and trains under an emulator, one has several
# instruction sets and chooses by the processor; their losses are this machine's to 1e-5. What cannot be is refused.
# usage: targets_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
source=$1
[ "$(uname -m)" = x86_64 ] || { echo "skipped: this machine is no x86-64"; exit 0; }
for tool in aarch64-linux-gnu-gcc qemu-aarch64 qemu-x86_64; do
    command -v $tool > /dev/null || { echo "skipped: $tool is missing: install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"; exit 0; }
done
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 0 --cache "$work/cache")
train_with="$source/tests/install/export/train_with.c"

near() { # near WHAT GOT EXPECTED: losses of 20 steps
    paste "$2" "$3" | awk '{ d = $4 - $8; if (d < 0) d = -d; if (d > 1e-5) exit 1; n++ } END { exit n != 20 }' ||
        fail "$1: other losses: $(paste "$2" "$3" | tail -n 3)"
}

# --- Refused, before anything is compiled -------------------------------------------------------------
refused() { # refused STATUS WORDS FLAGS...
    PATH=${path:-$PATH} "$command" "${@:3}" > out 2> err
    [ $? = "$1" ] || fail "${*:3}: ended otherwise than with $1"
    grep -qF -- "$2" err || fail "${*:3}: said '$(cat err)', expected '$2'"
}
refused 2 '--target is "arm64", expected auto or host, baseline, avx2, avx512, arm-64-linux, sm_80' export gpt "${tiny[@]}" --target arm64 --out none
refused 2 "arm-64-linux are not for one machine" export gpt "${tiny[@]}" --target avx2,arm-64-linux --out none
refused 2 "it is for aarch64, and this machine is x86_64; compile and export take it" train gpt "${tiny[@]}" --target arm-64-linux --out none
refused 2 "only export takes several" train gpt "${tiny[@]}" --target avx2,baseline --out none
path=$work refused 1 "install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" export gpt "${tiny[@]}" --target arm-64-linux --out none
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
cmp -s baseline avx2 && fail "the baseline has the bits of avx2: the same code"
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
    [ "$(size "gptlib/src/kernels_$set.o" | awk 'NR == 2 { print $1 }')" -le 1000000 ] || fail "$set: more than 1 MB of code"
done

# --- Another processor --------------------------------------------------------------------------------
"$command" export gpt "${tiny[@]}" --target arm-64-linux --out armlib 2> err || { fail "export for ARM: $(cat err)"; exit 1; }
make -s -C armlib > log 2>&1 || fail "make for ARM: $(cat log)"
grep -q warning: log && fail "the example warns: $(cat log)"
arm=(qemu-aarch64 -L /usr/aarch64-linux-gnu)
(cd armlib && "${arm[@]}" ./example) 2> err | head -n 20 > got || fail "on ARM: $(cat err)"
near "on ARM" got this
aarch64-linux-gnu-gcc -Wall -Wextra -I armlib -o arm_with "$train_with" -L armlib -lgpt || fail "the shared library does not link"
"${arm[@]}" -E LD_LIBRARY_PATH=armlib ./arm_with armlib > shared 2> err || fail "shared, on ARM: $(cat err)"
[ "$(head -n 1 shared)" = arm-64-linux ] && tail -n 20 shared | cmp - got || fail "shared, on ARM: $(head -n 2 shared)"
aarch64-linux-gnu-readelf -d armlib/libgpt.so | grep NEEDED | grep -vE 'lib[cm]\.so' && fail "on ARM it needs more than libc and libm"
"$command" compile gpt "${tiny[@]}" --target arm-64-linux --out arm.bundle 2> err || fail "compile: $(cat err)"
readelf -h arm.bundle/kernels.so | grep -q AArch64 || fail "compile: its kernels are not for ARM"

[ $failures = 0 ] && echo "libraries for other processors train"
exit $((failures > 0))
