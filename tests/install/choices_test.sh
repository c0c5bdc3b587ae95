#!/bin/bash
# What runs do with the lines that a search has kept for their step, and where nothing can be kept: lines of an older
# program, another --clip, ranks, another cache, a full disk, a folder that may not be written, a budget that nothing fits.
# usage: choices_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
faults=$2/tests/libcryolite_faults.so
model=(--layers 1 --heads 2 --width 32 --context 16 --batch 4)
here=(--cache "$work/cache" --threads 1)
tune() { timeout 400 "$command" tune gpt "${model[@]}" "$@" < /dev/null > out 2> err; }
train() { timeout 300 "$command" train gpt "${model[@]}" --steps 5 --eval-every 0 --json "$@" < /dev/null > out 2> err; }
losses() { sed -n 's/.*"event":"step".*"loss":\([^,]*\),.*/\1/p' out; }
# A search decides by time; these tests by what they write in its place.
chosen() { # chosen LINES: for the step that was searched
    python3 -c "
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
db.execute('UPDATE choices SET lines = ?, before = 2, after = 1', (sys.argv[2],))
db.commit()
sys.exit(db.execute('SELECT count(*) FROM choices').fetchone()[0] == 0)" "$work/cache/searches.sqlite" "$1"
}

tune "${here[@]}" --for 1s || { fail "a search: $(cat err)"; exit 1; }
chosen 'loops(h.*.mlp.c_fc, forward): rows=2' || fail "the search kept no choice"
train "${here[@]}" --out tuned || fail "a tuned run: $(cat err)"
grep -q 'tuned: 1 line ' err && grep -q 'rows=2' tuned/config.toml || fail "it does not take the line: $(cat err)"
losses > tuned.losses
timeout 300 "$command" train gpt --config tuned/config.toml --cache "$work/other" --out again --json < /dev/null > out 2> err ||
    fail "its config.toml with a new cache: $(cat err)"
losses > again.losses
[ -s tuned.losses ] && cmp -s tuned.losses again.losses || fail "config.toml does not repeat the losses: $(paste tuned.losses again.losses)"

timeout 300 "$command" bench gpt "${model[@]}" "${here[@]}" --steps 3 < /dev/null > out 2> err || fail "bench: $(cat err)"
grep -q 'tuned: none; .* with clipping: --clip 1 uses them' err || fail "bench does not say whose lines there are: $(cat err)"
timeout 300 "$command" bench gpt "${model[@]}" "${here[@]}" --steps 3 --clip 1 < /dev/null > out 2> err || fail "bench --clip 1: $(cat err)"
grep -q 'tuned: 1 line ' err || fail "the flag that bench names does not take them: $(cat err)"
train "${here[@]}" --out lined --lines 's(ln_f).compute_root()' || fail "with --lines: $(cat err)"
grep -q 'tuned: none; .* for this step without --lines; .* cryolite tune gpt --export FILE' err ||
    fail "a step with lines is not told of those for the step without: $(cat err)"

chosen 'loops(h.7.up, forward): rows=2'
train "${here[@]}" --out stale && fail "lines that the program has not are taken"
grep -q "tuned:1:7: the model has no 'h.7.up'" err && grep -q 'cryolite tune gpt --forget and the flags of this step, or give --tuned none' err ||
    fail "the error about stale lines: $(cat err)"
train "${here[@]}" --out shipped --tuned none || fail "--tuned none: $(cat err)"

if [ -e "$2/bin/libcryolite_mpi.so" ] && command -v mpirun > /dev/null; then
    # Each rank has a cache of its own: rank 0's choice is that of both.
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    tune "${here[@]}" --workers 2 --for 1s || fail "a search for two workers: $(cat err)"
    chosen 'loops(h.*.mlp.c_fc, forward): rows=2'
    cp -r cache cache1 && rm -f cache1/searches.sqlite*
    printf '#!/bin/bash\n[ "$OMPI_COMM_WORLD_RANK" = 0 ] && c=cache || c=cache1\nexec "$@" --cache "%s/$c"\n' "$work" > rank.sh
    chmod +x rank.sh
    timeout 300 mpirun --oversubscribe -n 2 ./rank.sh "$command" train gpt "${model[@]}" --threads 1 --steps 5 --eval-every 0 \
        --json --out ranks < /dev/null > out 2> err || fail "two ranks: $(cat err)"
    grep -q 'tuned: 1 line ' err && grep -q 'rows=2' ranks/config.toml || fail "ranks do not take rank 0's choice: $(cat err)"
fi

# A full disk, 28, at each of some calls on the records: the search ends with a word, or never notices.
for at in write:1 write:6 fsync:2; do
    call=${at%:*}
    env LD_PRELOAD="$faults" CRYOLITE_FAULT_PATH="*searches.sqlite*" CRYOLITE_FAULT=error CRYOLITE_FAULT_CALL=$call \
        CRYOLITE_FAULT_AT=${at#*:} CRYOLITE_FAULT_ERRNO=28 timeout 300 "$command" tune gpt "${model[@]}" "${here[@]}" --for 5s \
        < /dev/null > out 2> err
    got=$?
    case $got in
        0) ;;
        1) grep -Eq 'full|kept|searches.sqlite' err || fail "a full disk at $call says nothing of it: $(tail -3 err)" ;;
        *) fail "a full disk at $call: exit status $got: $(tail -3 err)" ;;
    esac
    "$command" cache verify "${here[@]:0:2}" > out 2> err || fail "after a full disk at $call: $(cat out err)"
    tune "${here[@]}" --show || fail "a full disk at $call lost the choice: $(cat err)"
done

# A cache that may not be written, by a user to whom that applies.
cp -r cache locked && mkdir tmp && chmod 755 . && chmod -R a-w locked
user=()
if [ "$(id -u)" = 0 ]; then
    chown -R 65534:65534 locked tmp
    user=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fi
TMPDIR=$work/tmp timeout 300 "${user[@]}" "$command" tune gpt "${model[@]}" --threads 1 --cache "$work/locked" --for 1s \
    < /dev/null > out 2> err
[ $? = 1 ] && grep -q 'which cannot be used: .*; name another --cache DIR' err || fail "a cache that may not be written: $(cat err)"
chmod -R u+w locked

tune "${here[@]}" --for 5s --recompute 10kB && fail "a budget that nothing fits is searched"
grep -q 'the step does not fit into 10.0 kB .* it takes [0-9.]* kB .* allow that with --recompute [0-9]*, or ' err || fail "a budget that nothing fits: $(cat err)"

# Two searches of different steps at once: they take turns at measuring, and both have the same records.
for clip in 0 1; do
    timeout 400 "$command" tune gpt "${model[@]}" "${here[@]}" --clip $clip --for 30s --json < /dev/null > out$clip 2> err$clip &
done
wait
for clip in 0 1; do
    tail -1 out$clip | grep -q '"event":"tuned"' || fail "one of two searches at once: $(tail -3 err$clip)"
done
grep -q 'another search with the cache .* works on this machine' err0 err1 || fail "two searches at once measure at once: $(cat err0 err1)"
"$command" cache verify "${here[@]:0:2}" > out 2> err || fail "after two searches at once: $(cat out err)"
exit $((failures > 0))
