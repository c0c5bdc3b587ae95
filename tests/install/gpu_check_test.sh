#!/bin/bash
# tools/gpu_check, with --device opencl in place of a GPU: it passes, without anything of the checkout or of Halide, and says
# what is wrong. usage: gpu_check_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
unset CRYOLITE_ROOT
"$command" train digits --device opencl --steps 1 --eval-every 0 --out first --cache "$work/cache" > /dev/null 2> err ||
    { grep -q OpenCL err && echo "skipped: $(head -1 err)" || fail "$(cat err)"; exit $((failures > 0)); }
check=$1/tools/gpu_check
export CRYOLITE_COMMAND=$command
"$check" pack packed --device opencl --steps 20 > out 2>&1 || { fail "pack: $(cat out)"; exit 1; }
[ "$(du -sb packed | cut -f1)" -le 41943040 ] || fail "the folder is too large"
mv packed "elsewhere with blanks"
# In place of Python with PyTorch: it writes down what it is asked for, and cannot compile.
cat > python << 'PYTHON'
#!/bin/sh
[ "$1" = -c ] && exit 0
echo "$@" >> "$HOME/asked"
read -r steps
case "$*" in *"--mode compile"*) echo 'no "compiler"' >&2; exit 1 ;; esac
echo '{"ready": "torch 2"}'
echo '{"times": [0.25, 0.5], "best_s": 0.25, "median_s": 0.5, "peak_rss_mb": 7}'
PYTHON
chmod +x python
alone() { env -i PATH=/usr/bin:/bin HOME="$work" PYTHON="$work/python" "$work/elsewhere with blanks/gpu_check" "$@"; }
alone result.json 2> err || fail "it fails: $(cat err result.json)"
for words in '"passed":true,"device":"opencl"' '"model":"nano","passed":true,"steps":20' '"model":"digits","passed":true' \
    '"same_bits_twice":true' '"median_s":' '"pytorch":"not compared"' '"nccl":"not checked"' \
    '"pytorch":{"eager":{"best_s": 0.25, "median_s": 0.5, "peak_rss_mb": 7},"compile":{"error":"no  compiler'; do
    grep -qF "$words" result.json || fail "without $words: $(cat result.json)"
done
grep -qE '"step_bytes":[1-9][0-9]{5}' result.json || fail "without bytes of a step: $(cat result.json)"
grep -qE -- "/torch_gpt.py --layers 4 .*--device cpu --mode eager" asked || fail "PyTorch was asked for $(cat asked)"

# One loss is another: the model is named.
cd "elsewhere with blanks" || exit 1
echo digits > models
sed -i '7s/ .*/ 2.5/' reference/digits
alone > ../result 2> ../err && fail "a wrong loss passes"
grep -q '"model":"digits","passed":false' ../result || fail "$(cat ../result)"
# A bundle with a byte changed is not taken; nor a model that is not there.
printf x | dd of=bundles bs=1 seek=100000 conv=notrunc status=none
alone > ../result 2> ../err && fail "a damaged bundle passes"
grep -q "bundles cannot be imported" ../err || fail "damaged: $(cat ../err)"
cd .. || exit 1
"$check" pack other --models "nano nonsense" > out 2>&1
[ $? = 2 ] && grep -q "there is no model nonsense" out || fail "an unknown model: $(cat out)"
exit $((failures > 0))
