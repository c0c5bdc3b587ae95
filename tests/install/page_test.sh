#!/bin/bash
# The page of a step shows how fast kernels were where they were timed: `bench --profile` times them, `explain --html` has no
# figure before. (`bench` does not clip unless it is told.) usage: page_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --threads 1 --clip 0)
export XDG_CACHE_HOME=$work/xdg # the cache that nobody names has the times, too
timed() { # how many calls of a step have a time
    "$command" explain gpt "${tiny[@]}" --json 2> err | grep -c '"seconds":' || [ -s err ] || true
}
[ "$(timed)" = 0 ] || fail "a kernel has a time before any was timed"
"$command" explain gpt "${tiny[@]}" --html before.html > out 2> err || fail "a page: $(cat err)"
grep -q 'hollow"' before.html && grep -q ">not timed<" before.html || fail "the page does not say that nothing was timed"
"$command" bench gpt "${tiny[@]}" --steps 5 --profile > out 2> err || fail "bench --profile: $(cat err)"
[ -e "$XDG_CACHE_HOME/cryolite/searches.sqlite" ] && [ ! -e searches.sqlite ] || fail "times are not kept in the cache: $(ls)"
[ "$(timed)" -gt 10 ] || fail "bench --profile has kept $(timed) times"
"$command" explain gpt "${tiny[@]}" --html after.html > out 2> err || fail "a page: $(cat err)"
grep -q "of the roof, .* FLOP a byte" after.html || fail "the page has no times"
grep -q ">not timed<" after.html && fail "a kernel of the step is not timed"

[ $failures = 0 ] && echo "the page has the times of kernels"
exit $((failures > 0))
