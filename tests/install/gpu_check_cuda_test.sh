#!/bin/bash
# tools/gpu_check as it is for a GPU, against the recording driver, which computes nothing, and the doubles of cuBLASLt and
# NCCL: what it finds and starts there, and what it says of that. Losses are those of no computation: references are made so.
# usage: gpu_check_cuda_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
unset CRYOLITE_ROOT
doubles=$2/tests
export CRYOLITE_COMMAND=$command
"$1/tools/gpu_check" pack packed --steps 4 --models "digits tiny-cublaslt tiny-bf16 tiny-fp16" > out 2>&1 || { fail "pack: $(cat out)"; exit 1; }
for model in digits tiny; do
    awk '{if ($2 < 0.5) exit 1} END {exit NR != 4}' packed/reference/$model || fail "no losses of the CPU: $(cat packed/reference/$model)"
    printf '%s 0\n' 1 2 3 4 > packed/reference/$model
done

# Where a toolkit and Python's packages have their libraries, which the loader does not look at.
mkdir -p cuda/lib64 cuda/bin site/nvidia/nccl/lib
ln -s "$doubles/libcryolite_cublaslt_recorder.so" cuda/lib64/libcublasLt.so.12
ln -s "$doubles/libcryolite_nccl_recorder.so" site/nvidia/nccl/lib/libnccl.so.2
cat > python << PYTHON
#!/bin/sh
case "\$2" in *nvidia*) echo "$work/site/nvidia" ;; *) exit 1 ;; esac
PYTHON
cat > cuda/bin/compute-sanitizer << 'SANITIZER'
#!/bin/sh
echo "$*" >> "$HOME/sanitized"
[ "$1 $2" = "--error-exitcode 9" ] || exit 2
shift 2
read -r status < "$HOME/status"
echo 'Error: "of the device"'
[ "$status" = 0 ] || exit "$status"
exec "$@"
SANITIZER
# A loader that knows none of these, whatever this machine has, and a driver of CUDA 12.
mkdir tools
printf '#!/bin/sh\n' > tools/ldconfig
cat > tools/nvidia-smi << 'SMI'
#!/bin/sh
[ $# = 0 ] && echo "| NVIDIA-SMI 550.54   Driver Version: 550.54   CUDA Version: 12.4 |" || echo "Recorder, 550.54"
SMI
touch cuda/lib64/libcublasLt.so.13 # which this driver cannot use
chmod +x python cuda/bin/compute-sanitizer tools/*
check() {
    env -i PATH="$work/tools:/usr/bin:/bin" HOME="$work" TMPDIR="$work/tmp" PYTHON="$work/python" CUDA_HOME="$work/cuda" \
        CRYOLITE_CUDA_DRIVER="$doubles/libcryolite_cuda_recorder.so" packed/gpu_check "$@"
}
has() { for words; do grep -qF -- "$words" result || fail "without $words: $(cat result)"; done; }

mkdir tmp
echo 0 > status
check result 2> err || fail "it fails: $(cat err result)"
for model in digits tiny-cublaslt tiny-bf16 tiny-fp16; do
    has "\"model\":\"$model\",\"passed\":true,\"steps\":4,\"worst_loss_difference\":0,"
done
[ "$(grep -oF '"same_bits_twice":true,"sanitizer_clean":true,"host_waits":0,"step_waits":' result | wc -l)" = 4 ] ||
    fail "waits or bits: $(cat result)"
has '"passed":true,"device":"cuda","gpu":"Recorder, 550.54"' '"nccl":"one rank is well ' "\"cublaslt\":\"$work/cuda/lib64/libcublasLt.so.12\""
[ "$(wc -l < sanitized)" = 4 ] && grep -q -- '--steps 2 ' sanitized || fail "the sanitizer was asked for $(cat sanitized)"
[ -z "$(ls tmp)" ] || fail "it leaves $(ls tmp)"

# What the sanitizer finds decides, that it cannot run does not; nor do GCC's libraries that need a newer glibc.
echo digits > packed/models
echo 9 > status
check result 2> err && fail "what the sanitizer finds passes: $(cat result)"
has '"model":"digits","passed":false' '"same_bits_twice":true,"sanitizer_clean":false,"host_waits":0'
echo 3 > status
echo nothing > packed/lib/libstdc++.so.6
check result 2> err || fail "a sanitizer that cannot run decides: $(cat err result)"
has '"model":"digits","passed":true' "\"sanitizer_clean\":\"it cannot run here, status 3: Error:  of the device"
echo nothing > packed/lib/libfmt.so.9
check result 2> err && fail "it passes without its libraries"
grep -q "the command does not start here: .*libstdc++" err || fail "without libraries: $(cat err)"
cp -L "$(ldd "$command" | awk '/libfmt/ {print $3}')" packed/lib/

# No time, no library: the model is named.
sed -i 's/^limit=[0-9]*/limit=0/' packed/gpu_check
check result 2> err && fail "it passes without time"
has '"model":"digits","passed":false,"error":"no time is left","pytorch":"not compared"}'
sed -i 's/^limit=0/limit=300/' packed/gpu_check
echo tiny-cublaslt > packed/models
rm cuda/lib64/libcublasLt.so.12
if [ -z "$(find -L /usr/lib -name 'libcublasLt.so.1[12]' 2> /dev/null)" ]; then
    check result 2> err && fail "it passes without cuBLASLt"
    has '"model":"tiny-cublaslt","passed":false,"error":' 'there is no libcublasLt.so.12, libcublasLt.so.11 here, which the driver'
fi

# What explain lists of a bundle for a GPU.
"$command" cache import packed/bundles --cache carried > /dev/null 2> err || fail "import: $(cat err)"
"$command" explain digits --device cuda --target sm_80 --json --cache carried > explained 2> err || fail "explain: $(cat err)"
grep -q '0 from the cache' err && fail "explain compiled what was carried"
for words in '"blocks": \[' '"threads": \[' '"registers": [1-9]' '"occupancy": [01]' '"limit": "warps"' '"sectors": [1-9]'; do
    grep -q "$words" explained || fail "explain has no $words: $(head -50 explained)"
done
exit $((failures > 0))
