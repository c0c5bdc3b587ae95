#!/bin/bash
# Schedules made bad on purpose, tiles halved and fusion off: a search finds the way back to within 5 % of the shipped step.
# Prints what it comes to. usage: recover.sh SOURCE BUILD [TIME OF EACH SEARCH: 10min] [FLAGS OF THE MODEL: --preset nano]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
export TMPDIR=$work
time=${3:-10min}
shift $(($# < 3 ? $# : 3))
[ $# = 0 ] && set -- --preset nano
flags=("$@" --clip 0 --cache "$work/cache")

"$command" explain gpt "${flags[@]}" --ir lines > shipped.lines 2> err || { fail "explain: $(tail -1 err)"; exit 1; }
python3 - > halved.lines << 'END2'
import re
for line in open('shipped.lines'):
    found = re.match(r'# (loops\([^)]*\)): ([^;]*);  // (.*)', line)
    if not found: continue
    numbers = dict(n.split('=') for n in found[2].split())
    legal = {}
    for words in found[3].split('; '):
        at = re.search(r'(\w+) ((?:\d+(?:, | or )?)+)$', words)
        if at: legal[at[1]] = [int(n) for n in re.findall(r'\d+', at[2])]
    halved = {n: max([v for v in legal.get(n, []) if v <= int(numbers[n]) // 2], default=0)
              for n in ('columns', 'rows') if n in numbers}
    halved = {n: v for n, v in halved.items() if v}
    if 'columns' in numbers and halved: print(f"{found[1]}: {' '.join(f'{n}={v}' for n, v in halved.items())};")
END2
[ -s halved.lines ] || fail "no tiles are there to be halved: $(head -5 shipped.lines)"
grep ': legal' shipped.lines | grep -o '^s([^/]*)\.compute_\(at\|with\)([^/]*);' | sed 's/)\.compute_.*/).compute_root();/' > apart.lines
[ -s apart.lines ] || fail "no fusions are there to be taken apart"

step() { median_step 300 "$1" "${flags[@]}" --steps 60 "${@:2}"; }
for bad in halved apart; do
    cat > $bad.cpp << END2
#include "generators/cryolite.h"

#include "dsl/models/gpt.h"
#include "schedules/models/gpt.h"

void schedule(cryolite::Gpt &net, cryolite::Step &s) {
    cryolite::schedule_gpt(net, s);
    s.lines(R"($(cat $bad.lines))");
}

int main(int argc, char **argv) {
    cryolite::ProgramInfo info{.name = "$bad"};
    info.presets = {{"nano", {{"layers", "4"}, {"heads", "4"}, {"width", "128"}, {"context", "64"}, {"batch", "12"}, {"tokenizer", "char"}}}};
    return cryolite::program<cryolite::Gpt, schedule>(argc, argv, info);
}
END2
    timeout 7200 "$command" tune $bad.cpp "${flags[@]}" --for "$time" < /dev/null > $bad.schedule 2> err || { fail "$bad: $(tail -3 err)"; continue; }
    grep "tried" err | tail -1
    # In turn, since the machine may change its clock; the medians of what each round says.
    for _ in 1 2 3 4 5 6 7; do
        echo "$(step gpt --tuned none) $(step $bad.cpp --tuned none) $(step $bad.cpp --tuned auto)"
    done > times
    python3 - $bad "$time" << 'END2' || fail "$bad is not recovered to within 5 %: $(cat $bad.schedule)"
import statistics, sys
rows = [[float(n) for n in line.split()] for line in open('times')]
shipped, bad, found = (1e3 * statistics.median(column) for column in zip(*rows))
was, now = (statistics.median(row[k] / row[0] for row in rows) for k in (1, 2))
print(f'{sys.argv[1]}: {shipped:.3f} ms shipped, {bad:.3f} made bad, {was:.3f} of the shipped, {found:.3f} after a search of {sys.argv[2]}, '
      f'{now:.3f} of the shipped')
sys.exit(now > 1.05)
END2
done
exit $((failures > 0))
