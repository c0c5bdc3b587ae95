#!/bin/bash
# A search that is killed with SIGKILL at random moments, and begun again each time: the cache is whole, every candidate
# that was told is in its records, and what was taken is the choice of `train`; only the candidate at work is lost.
# usage: tune_kills_test.sh SOURCE BUILD [KILLS: 4] [SECONDS: a kill comes within so many of the search's begin, 20]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
kills=${3:-4} within=${4:-20}
seed=${CRYOLITE_SEED:-$(($(date +%s) % 32768))}
RANDOM=$seed
echo "CRYOLITE_SEED=$seed"
export TMPDIR=$work
model=(--layers 1 --heads 2 --width 64 --context 32 --batch 4 --cache "$work/cache" --threads 2)
tune() { timeout 600 "$command" tune gpt "${model[@]}" "$@" < /dev/null > out 2> err; }

records() {
    python3 -c "
import sqlite3, sys
print(sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM candidates').fetchone()[0])" "$work/cache/searches.sqlite"
}
# what_is_lost OUT: of the events of a search that was killed, those that its records lack.
what_is_lost() {
    python3 - "$1" "$work/cache/searches.sqlite" << 'END'
import json, sqlite3, sys
events = []
for line in open(sys.argv[1], errors='replace'):
    try: events.append(json.loads(line))
    except ValueError: pass  # the line that was being written
records = sqlite3.connect(f'file:{sys.argv[2]}?mode=ro', uri=True)
rows = records.execute('SELECT candidate, ratio, refused FROM candidates').fetchall()
kept = set(rows)
refused = {c for c, r, why in rows if why}  # one that was fast may be refused when it is timed again
choices = [lines for lines, in records.execute('SELECT lines FROM choices')]
lost = [e for e in events if e['event'] == 'candidate' and not e['known'] and e['ratio'] != 1
        and (e['candidate'], e['ratio'], e['refused']) not in kept and e['candidate'] not in refused]
for e in lost: print('no record of', e['of'], e['candidate'])
if any(e.get('taken') for e in events) and not any(choices): print('what was taken is no choice')
END
}

# The first one compiles what all begin with.
tune --for 1s || { fail "the search: $(cat err)"; exit 1; }
hit=0 told=0
for ((k = 1; k <= kills; k++)); do
    before=$(records)
    "$command" tune gpt "${model[@]}" --for 600s --json < /dev/null > killed 2> killed.err &
    pid=$!
    # The moment is counted from the first event, or the first candidate: what comes before is the same each time.
    [ $((k % 2)) = 0 ] && from='"event"' || from='"event":"candidate"'
    for ((tenths = 0; tenths < 3000; tenths++)); do
        grep -q "$from" killed || ! kill -0 $pid 2> /dev/null && break
        sleep 0.1
    done
    after=$((RANDOM * within * 1000 / 32768))
    sleep "$((after / 1000)).$(printf %03d $((after % 1000)))"
    kill -KILL $pid 2> /dev/null
    wait $pid 2> /dev/null
    [ $? = 137 ] && hit=$((hit + 1))
    lost=$(what_is_lost killed) && [ -z "$lost" ] || fail "killed $after ms after its first $from: $lost"
    told=$((told + $(grep -c '"event":"candidate"' killed)))
    "$command" cache verify --cache "$work/cache" > out 2> err || fail "cache verify: $(cat out err)"
    now=$(records)
    [ "$now" -ge "$before" ] || fail "of $before records $now are left"
done
[ $hit -gt $((kills / 2)) ] || fail "of $kills kills only $hit met the search: $(tail -3 killed.err)"
[ $told -gt 0 ] || fail "no search came to a candidate"

tune --for 60s --json || fail "a search after the kills: $(cat err)"
grep -q '"event":"candidate".*"known":true' out || fail "it knows nothing of what was measured: $(head -3 out)"
tune --show || fail "there is no choice: $(cat err)"
[ $failures = 0 ] && echo "$kills kills, $hit of them in a search, $told candidates: none that was told is lost"
exit $((failures > 0))
