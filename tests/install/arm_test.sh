#!/bin/bash
# A library for ARM, linked by Debian's cross compiler, trains under an emulator; its losses are this machine's to 1e-5.
# usage: arm_test.sh SOURCE BUILD
. "$1/tests/support/script.sh"
. "$1/tests/install/export/targets.sh"
for tool in aarch64-linux-gnu-gcc qemu-aarch64; do
    command -v $tool > /dev/null || skip_unless_ci "$tool is missing: install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
done
"$command" train gpt "${tiny[@]}" --steps 20 --eval-every 0 --checkpoint-every 0 --json --out run 2> err |
    sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/step \1  loss \2/p' > this
[ "$(wc -l < this)" = 20 ] || fail "train: $(cat err)"

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

# A bundle of the same kernels.
"$command" compile gpt "${tiny[@]}" --target arm-64-linux --out arm.bundle 2> err || fail "compile: $(cat err)"
readelf -h arm.bundle/kernels.so | grep -q AArch64 || fail "compile: its kernels are not for ARM"
refused 2 "it is for aarch64, and this machine is $(uname -m); only compile and export can use it here" train gpt "${tiny[@]}" --target arm-64-linux --out none
path=$work refused 1 "install gcc-aarch64-linux-gnu libc6-dev-arm64-cross" export gpt "${tiny[@]}" --target arm-64-linux --out none
[ ! -e none ] || fail "a refused library was written"

[ $failures = 0 ] && echo "a library for ARM trains"
exit $((failures > 0))
