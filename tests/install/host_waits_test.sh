#!/bin/bash
# A run on the device cuda waits for no step, whatever the number format: against the recording driver, which computes
# nothing. usage: host_waits_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

CRYOLITE_CUDA_DRIVER=$(find "$2" -name 'libcryolite_cuda_recorder.*' | head -1)
[ -n "$CRYOLITE_CUDA_DRIVER" ] || { fail "there is no recording driver in $2"; exit 1; }
export CRYOLITE_CUDA_DRIVER
awk 'BEGIN { for (r = 0; r < 100; r++) { for (c = 0; c < 8; c++) printf "%g,", (r * 7 + c * 3) % 10 / 100; print 0.5 } }' > some.csv
for precision in fp32 bf16 fp16; do
    "$command" train "$2/tests/scaled" --data some.csv --val some.csv --device cuda --precision $precision --steps 6 \
        --eval-every 0 --checkpoint-every 0 --cache "$work/cache" --json --out $precision > json 2> err ||
        fail "$precision: $(cat err)"
    grep -q '"event":"done".*"host_waits":0,' json || fail "$precision: the host waits: $(tail -1 json)"
done
[ "$(grep -c '"loss_scale":65536}' json)" = 6 ] || fail "fp16 tells no scale: $(head -2 json)"

[ $failures = 0 ] && echo "host_waits_test: all fine"
exit $((failures > 0))
