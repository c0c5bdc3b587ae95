#!/bin/bash
# A search from its first candidate to a run that takes what it found; and what it refuses. usage: tune_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
model=(--layers 1 --heads 2 --width 64 --context 32 --batch 4 --cache "$work/cache" --threads 2)
tune() { timeout 400 "$command" tune "$@" < /dev/null > out 2> err; }
train() { timeout 300 "$command" train gpt "${model[@]}" --steps 5 --json "$@" < /dev/null > out 2> err; }
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' out; }

for wrong in 'nonsense --for 10s:there is no app' 'gpt:needs --for TIME' 'gpt --for soon:expected' \
    'gpt --for 10s --report none/r.html:there is no such folder' 'gpt --for 10s --export none/a:there is no such folder' 'gpt --show --report r.html:is of a search' \
    'gpt --show --for 9s:of an earlier search' 'gpt --forget --for 9s:of an earlier search' 'gpt --show --forget:leave one of them out' \
    'gpt --for 10s --nonsense:is not a flag'; do
    tune ${wrong%%:*} --cache "$work/cache"
    [ $? = 2 ] && grep -q "${wrong#*:}" err || fail "$wrong: $(cat err)"
done
tune gpt "${model[@]}" --show
[ $? = 1 ] && grep -q "no search for this step" err || fail "--show of nothing: $(cat err)"

mkdir -p locked/searches.sqlite/x && chmod 700 locked
tune gpt "${model[@]}" --cache "$work/locked" --for 5s
[ $? = 1 ] && grep -q "which cannot be used: .*; name another --cache DIR" err || fail "a cache it cannot keep: $(cat err)"

train --out plain --tuned none || fail "a plain run: $(cat err)"
losses > plain.losses
tune gpt "${model[@]}" --for 60s --same-bits --json --report search.html --export found.schedule || fail "the search: $(cat err)"
grep -q '<h2>What was refused, and why</h2>' search.html && grep -q 'class="curve"' search.html || fail "--report"
grep -qE '^[0-9]+ lines? (is|are) not legal in this step: ' err || fail "lines that are not legal: $(cat err)"
grep -Eq '"event":"(candidate|line)"' out && tail -1 out | grep -q '"event":"tuned".*"lines":\[.*"moves":{' || fail "events: $(tail -3 out)"
grep -qv '^{' out && fail "not JSON lines alone"
tune gpt "${model[@]}" --export my.schedule --show || fail "--export: $(cat err)"
cmp -s out my.schedule && cmp -s found.schedule my.schedule || fail "--show and --export, of a search and later, differ"

# Whatever was found in this time: a line that a search might find.
if ! grep -q '^[^/]' my.schedule; then
    echo 'loops(h.*.mlp.c_fc, forward): rows=3;' >> my.schedule
    train --out scheduled --schedule my.schedule || fail "lines that were exported: $(cat err)"
else
    train --out tuned || fail "a run that takes what was found: $(cat err)"
    grep -q "tuned: [0-9]* line" err && grep -q '^tuned = "[ls]' tuned/config.toml || fail "it does not say so: $(cat err)"
    train --out tuned --resume --steps 8 || fail "its resume: $(cat err)"
    grep -q "tuned: " err && fail "a resume looks again"
    train --out scheduled --tuned none --schedule my.schedule || fail "lines that were exported: $(cat err)"
fi
losses > scheduled.losses
mv my.schedule moved.schedule
train --out scheduled --resume --steps 8 || fail "a resume without the file of its lines: $(cat err)"
cmp -s plain.losses scheduled.losses || fail "--same-bits has other losses: $(paste plain.losses scheduled.losses)"
train --out unknown --tuned 'loops(h.7.up, forward): rows=4' && fail "a line that the model has not is taken"
grep -q "tuned:1:7: the model has no 'h.7.up'" err || fail "a line of an older version: $(cat err)"

echo 's(d(h.*.mlp.c_fc.weight)).compute_root();' > stored.schedule
echo 's(d(h.*.mlp.c_fc.weight)).compute_at(next(h.*.mlp.c_fc.weight));' > fused.schedule
timeout 100 "$command" explain gpt "${model[@]}" --clip 0 --diff stored.schedule fused.schedule > out 2> err || fail "--diff: $(cat err)"
grep -q 'next(h.\*.mlp.c_fc.weight)' out && grep -q 'the whole step$' out || fail "what a line buys: $(cat out)"
grep -q '^[1-9][0-9]* of [0-9]* calls have a time that was measured' out || fail "the search's times are not taken: $(cat out)"
"$command" explain --diff stored.schedule fused.schedule gpt "${model[@]}" --clip 0 2> err | grep -q 'the whole step$' || fail "--diff before the app: $(cat err)"
for files in "" stored.schedule; do
    "$command" explain gpt --diff $files > out 2> err
    [ $? = 2 ] && grep -qF -- "--diff compares two files of lines and was given ${files:+one, }${files:-none}: " err || fail "--diff $files: $(cat err)"
done
"$command" explain gpt --diff stored.schedule fused.schedule stored.schedule > out 2> err
[ $? = 2 ] && grep -qF "and 'stored.schedule' is none of them" err || fail "--diff with three files: $(cat err)"
"$command" explain --help | grep -q -- "--diff A B  *compare the steps of two files" || fail "explain --help does not say what --diff takes"

if command -v llvm-mca-19 > /dev/null; then # inner loops are read where they are compiled, whether they were timed or not
    echo 'loops(h.*.mlp.c_fc, forward): columns=16 rows=2;' > narrow.schedule
    train --out narrow --tuned none --schedule narrow.schedule || fail "a narrow tile: $(cat err)"
    timeout 100 "$command" explain gpt "${model[@]}" --clip 0 --diff fused.schedule narrow.schedule --json > out 2> err || fail "--diff: $(cat err)"
    python3 - << 'END2' || fail "a narrow tile is not predicted to be slower: $(cat out)"
import json
row = [k for k in json.load(open('out'))['kernels'] if k['name'].startswith('h.*.mlp.c_fc')][0]
assert row['after']['bytes'] == row['before']['bytes']
assert row['after']['seconds'] > 1.1 * row['before']['seconds'], row
END2
fi

tune gpt "${model[@]}" --for 60s --check-model 2 --json --out unused || fail "--check-model: $(cat err)"
grep -q "note: --out has no effect here" err || fail "a flag of train's: $(cat err)"
grep -q '"event":"checked".*"kernels":' out && tail -1 out | grep -q '"counted":.*"event":"model"' || fail "its events: $(tail -3 out)"

# A device: its records are apart from those of the CPU.
tune gpt "${model[@]}" --device opencl --for 150s
if [ $? = 2 ] && grep -q "install the package" err; then
    echo "no OpenCL here"
else
    grep -q "ms a step on .* (" err && grep -q "candidates (0 known from before)" err || fail "a search on OpenCL: $(cat err)"
    grep -q "^ .*%.*%.*%" err || fail "a search on OpenCL tries no loops: $(cat err)"
    tune gpt "${model[@]}" --device opencl --export device.schedule || fail "--export of OpenCL: $(cat err)"
    train --out on_cpu --tuned none || fail "a plain run: $(cat err)"
    losses > cpu.losses
    train --out on_device --device opencl || fail "a run on OpenCL: $(cat err)"
    [ "$(grep -c '^[^/]' device.schedule)" = 0 ] || grep -q "tuned: [0-9]* line" err || fail "a run on OpenCL does not take what was found: $(cat err)"
    losses | paste - cpu.losses | awk '{ d = $1 - $2; if (d * d > 1e-6) exit 1 } END { exit NR != 5 }' || fail "other losses on OpenCL: $(cat out)"
    echo 'loops(h.*.mlp.c_fc, forward): automatic=adams2019;' > cpu.schedule
    train --out wrong --device opencl --tuned none --schedule cpu.schedule && fail "loops of the CPU are taken for a device"
    grep -q "expected a whole number from 0 to 5, or written, anderson2021, li2018, plain" err || fail "loops of the CPU: $(cat err)"
    # Without the device, a step for it is compiled, and the records are no hindrance.
    timeout 300 "$command" compile gpt "${model[@]}" --device cuda --out for_cuda < /dev/null > out 2> err || fail "compiling for a device that is not here: $(cat err)"
fi

"$command" tune gpt "${model[@]}" --for 300s < /dev/null > out 2> err &
sleep 15
kill -INT $!
wait $!
[ $? = 130 ] || fail "an interrupt has another status than 130: $(tail -3 err)"
tune gpt "${model[@]}" --show || fail "what a search that is interrupted found is kept: $(cat err)"
tune gpt "${model[@]}" --forget && grep -q forgotten err || fail "--forget: $(cat err)"
tune gpt "${model[@]}" --show && fail "it is not forgotten"
ls -d cryolite-tune-* 2> /dev/null && fail "a folder is left behind"
exit $((failures > 0))
