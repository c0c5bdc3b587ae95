#!/bin/bash
# What `cryolite fuzz` says: a case by its text, a difference as a smaller program that trains, an interrupt. usage: fuzz_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
fuzz() { timeout 300 "$command" fuzz "$@" < /dev/null > out 2> err; }

# Within rounding alone everything differs.
fuzz --cases 1 --seed 1 --tolerance 1e-6 --shrinks 4
[ $? = 1 ] || fail "a difference has another status than 1"
grep -q 'program<Found, schedule>' out || fail "no program is printed: $(cat out err)"
sed -n "s|^// cryolite fuzz --case '\(.*\)'$|\1|p" out > case
sed '/^[0-9]* programs agree/,$d' out > found.cpp
fuzz --case "$(cat case)" --tolerance 1e-6 --shrinks 0 --json
[ $? = 1 ] || fail "the case that was printed does not differ"
grep -q '^{.*"event":"finding"' out && grep -q '^{.*"event":"fuzzed".*"findings":1' out && ! grep -qv '^{' out ||
    fail "not JSON lines alone: $(cat out)"
fuzz --case "$(cat case)" || fail "and it does not agree without that tolerance: $(tail -3 out)"
# Its head has scores for 32 tokens: a text of as many.
for _ in {1..400}; do printf 'abcdefghijklmnopqrstuvwxyz012345'; done > text
timeout 300 "$command" explain found.cpp --data text --cache "$work/cache" > out 2> err || fail "the program is none: $(tail -5 err)"

for wrong in '--case nonsense=1:a case has no' '--case examples=3~workers=2:3 examples' '--for long:a time from'; do
    set -- ${wrong%%:*}
    fuzz "$1" "${2//\~/ }"
    [ $? = 2 ] && grep -q "${wrong#*:}" err || fail "$wrong: $(cat err)"
done

"$command" fuzz --for 5m > out 2> err < /dev/null &
sleep 3
kill -INT $!
wait $!
[ $? = 130 ] || fail "an interrupt has another status than 130: $(cat err)"
ls -d cryolite-fuzz-* 2> /dev/null && fail "its folder is left behind"
exit $((failures > 0))
