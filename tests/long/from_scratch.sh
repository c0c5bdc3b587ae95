#!/bin/bash
# What a search makes of Halide's autoschedulers alone: for each model the step of automatic loops that --from-scratch begins with,
# the one that it finds in TIME, and the hand-scheduled one: commands in turn, medians of steps, and of the ratios of each round, since the
# machine may change its clock.
# Fails where what was found is not the least faster than the beginning.
# usage: from_scratch.sh SOURCE BUILD [TIME IN MINUTES: 10] [MODELS: gpt and names in tests/programs]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
minutes=${3:-10}
models=("${@:4}")
[ ${#models[@]} = 0 ] && models=(gpt my_model recurrent smoother smollm2 packed views)

median() { median_step 900 "$model" --clip 0 --cache "$cache" --steps 40 --tuned none "$@"; }
printf 's.clear();\ns.clear_loops();\n' > begin.schedule
for name in "${models[@]}"; do
    model=$CRYOLITE_ROOT/tests/programs/$name.cpp cache=$work/cache_$name
    [ "$name" = gpt ] && model=gpt
    timeout $((60 * minutes + 1800)) "$command" tune "$model" --clip 0 --from-scratch --for "${minutes}min" --cache "$cache" \
        < /dev/null > "$name.schedule" 2> err || { fail "$name: $(tail -3 err)"; continue; }
    : > times
    for _ in 1 2 3 4 5; do
        echo "$(median --schedule "$work/begin.schedule") $(median --schedule "$work/$name.schedule") $(median)" >> times
    done
    python3 - "$name" "$minutes" << 'END_OF_PYTHON' || fail "$name: nothing was found, or a command failed: $(tail -2 err)"
import statistics, sys
rows = [[float(n) for n in line.split()] for line in open('times')]
assert rows and all(len(row) == 3 for row in rows), 'a command of bench failed'
begin, found, shipped = (1e3 * statistics.median(column) for column in zip(*rows))
times, share = (statistics.median(row[k] / row[1] for row in rows) for k in (0, 2))
print(f'{sys.argv[1]}: {begin:.3f} ms to begin with, {found:.3f} after {sys.argv[2]} min: {times:.2f} times as '
      f'fast; {shipped:.3f} scheduled by hand, of whose speed it has {share:.2f}')
sys.exit(times < 1)
END_OF_PYTHON
done
exit $((failures > 0))
