#!/bin/bash
# What a search misses in a sixth of its time. Four steps that nobody tuned for are searched for TIME, and what the search had
# kept after a sixth of it is set beside what it has at the end and beside the shipped step: commands in turn, medians of steps.
# Fails where the sixth is more than 5 % behind the end, or the lower 95 % bound of shipped beside tuned is below 0.98.
# A round of the comparison in which the machine changed its speed does not count.
# usage: regret.sh SOURCE BUILD [FOLDER FOR THE LINES] [TIME IN MINUTES: 60; 0: only compare the lines there]
#                  [STEPS: odd odd_bf16 my_model llama]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
source=$CRYOLITE_ROOT kept=${3:-$work/lines} minutes=${4:-60}
steps=("${@:5}")
[ ${#steps[@]} = 0 ] && steps=(odd odd_bf16 my_model llama)
mkdir -p "$kept"

model_of() { # the app with its flags, as words
    case $1 in
        odd) echo gpt --layers 3 --heads 5 --width 165 --context 67 --batch 11 --clip 0 ;;
        odd_bf16) echo gpt --layers 4 --heads 3 --width 201 --context 101 --batch 7 --precision bf16 --clip 0 ;;
        my_model) echo "$source/tests/programs/my_model.cpp" --clip 0 ;;
        llama) echo llama --preset nano --clip 0 ;;
        *) return 1 ;;
    esac
}
search() { # search MINUTES FILE: goes on with the search of the step, and writes its lines
    timeout $((60 * $1 + 1200)) "$command" tune "${model[@]}" --for "$1min" --cache "$cache" < /dev/null > out 2> err \
        || { fail "$name: $(tail -3 err)"; return 1; }
    grep 'tried' err | tail -1
    echo "# $name: ${model[*]##*/}, a search of $3 minutes" > "$2"
    cat out >> "$2"
}
median() { median_step 600 "${model[@]}" --cache "$cache" --steps 80 --tuned none "$@"; }
steady() { # steady "SHIPPED EARLY LATE SHIPPED": whether the shipped step took as long at the end as at the beginning
    awk 'NF != 4 { exit 0 } { exit ($1 / $4 > 1.04 || $4 / $1 > 1.04) }' <<< "$1"
}
for name in "${steps[@]}"; do
    read -ra model <<< "$(model_of "$name")" || { fail "no step is called $name"; continue; }
    cache=$work/cache_$name
    if [ "$minutes" -gt 0 ]; then
        search $((minutes / 6)) "$kept/$name.early" $((minutes / 6)) || continue
        search $((minutes - minutes / 6)) "$kept/$name.schedule" "$minutes" || continue
    fi
    : > times
    for _ in {1..25}; do
        round="$(median) $(median --schedule "$kept/$name.early") $(median --schedule "$kept/$name.schedule") $(median)"
        steady "$round" && echo "$round" >> times
        [ "$(wc -l < times)" -lt 9 ] || break
    done
    python3 - "$name" << 'END' || fail "$name: tuned is slower than shipped, or the early end too far behind"
import random, statistics, sys
rows = [[float(n) for n in line.split()] for line in open('times')]
assert rows and all(len(row) == 4 for row in rows), 'a command of bench failed, or no round was steady'
shipped, early, late, _ = (statistics.median(column) for column in zip(*rows))
gain = [(row[0] + row[3]) / 2 / row[2] for row in rows]
regret = statistics.median(row[1] / min(row[2], (row[0] + row[3]) / 2) for row in rows) - 1
draws = sorted(statistics.median(random.Random(i).choices(gain, k=len(gain))) for i in range(2000))
bound = draws[50]
print(f'{sys.argv[1]}: {1e3 * shipped:.3f} ms shipped, {1e3 * early:.3f} after a sixth of the time, {1e3 * late:.3f} at the end: '
      f'tuned {statistics.median(gain):.3f} times as fast, at least {bound:.3f}; regret {regret:.3f} ({len(rows)} rounds)')
sys.exit(regret > 0.05 or bound < 0.98)
END
done
exit $((failures > 0))
