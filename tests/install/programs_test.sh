#!/bin/bash
# Generator programs in one file: the README's and two unlike it compile, train, and learn.
# usage: programs_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
programs=$1/tests/programs

# losses FILE: the first and the last training loss, and whether the last is less than SHARE of the first.
learns() { # learns NAME SHARE ARGUMENTS...
    local name=$1 share=$2
    shift 2
    timeout 400 "$command" train "$@" --json --out "$name" --cache "$work/cache" > "$name.json" 2> "$name.err" ||
        { fail "$name: $(tail -3 "$name.err")"; return; }
    grep '"event":"step"' "$name.json" | sed 's/.*"loss":\([^,]*\),.*/\1/' |
        awk -v share="$share" 'NR == 1 {first = $1} {last = $1} END {exit !(last < share * first)}' ||
        fail "$name: the loss did not fall below $share of the first"
}

text=$1/apps/gpt/data/tinyshakespeare.txt
learns my_model 0.8 "$programs/my_model.cpp" --data "$text" --steps 150 --layers 1 --width 32 --eval-every 0
grep -q "no loop schedule" my_model.err && fail "my_model: a norm of rows has loops anyway: $(cat my_model.err)"
learns smollm2 0.8 "$programs/smollm2.cpp" --data "$text" --steps 150 --layers 1 --width 32 --hidden 64 --eval-every 0
lines=$(wc -l < "$programs/smollm2.cpp") of_block=$(awk '/^struct Block/, /^};/' "$programs/smollm2.cpp" | wc -l)
{ [ "$lines" -le 60 ] && [ "$of_block" -le 10 ] && [ "$of_block" -gt 0 ]; } || fail "smollm2.cpp has $lines lines, its block $of_block"
if grep -nE '\bs\(|schedule\(' "$programs/smollm2.cpp"; then fail "smollm2.cpp has a line of a schedule"; fi
learns smoother 0.8 "$programs/smoother.cpp" --data "$text" --steps 150 --reach 5 --eval-every 0
learns recurrent 0.8 "$programs/recurrent.cpp" --data "$text" --steps 100 --layers 1 --width 32 --eval-every 0
grep -q "CausalFilter has no loop schedule for forward" smoother.err || fail "no note of the loops that nobody wrote"
learns classifier 0.2 "$programs/classifier.cpp" --data "$1/apps/digits/data/digits.csv.gz" --steps 300
# y = x0 x1 + 0.3 x2, in a table of its own; numbers are predicted, and what is wrong with them is named by its line.
awk 'BEGIN {srand(3); for (i = 0; i < 500; i++) {a = rand(); b = rand(); c = rand(); print a "," b "," c "," a * b + 0.3 * c}}' > numbers.csv
learns regressor 0.1 "$programs/regressor.cpp" --data numbers.csv --steps 300
tail -1 regressor.json | grep -q '"event":"done"' && grep '"event":"eval"' regressor.json | tail -1 |
    awk -F'[:,}]' '{for (i = 1; i < NF; i++) if ($i == "\"r2\"") {exit !($(i + 1) > 0.9)}; exit 1}' ||
    fail "regressor: R2 is not above 0.9: $(grep '"event":"eval"' regressor.json | tail -1)"
grep -q "validation loss .*, RMSE .*, R2 0\.9" regressor.err || fail "regressor: no metric for people: $(tail -3 regressor.err)"
for wrong in '1,2,3,nan:"nan" is not a finite number' '1,2,3:3 fields, expected 4: 3 features and a target' '1,2,3,:"" is not a number'; do
    { head -9 numbers.csv; echo "${wrong%%:*}"; } > wrong.csv
    "$command" train "$programs/regressor.cpp" --data wrong.csv --cache "$work/cache" --out wrong > out 2> err
    [ $? = 2 ] && grep -q "wrong.csv: line 10, column [34]: ${wrong#*:}" err || fail "regressor: '${wrong%%:*}': $(tail -1 err)"
done
"$command" train "$programs/regressor.cpp" --cache "$work/cache" --out none > out 2> err
[ $? = 2 ] && grep -q "name a table with --data FILE.csv, whose last column is the target" err || fail "regressor: no data: $(tail -1 err)"
learns regressor2 0.5 "$programs/regressor.cpp" --data numbers.csv --steps 200 --outputs 2 --columns 2 --batch 24
sed 's/$/,1/' numbers.csv > wide.csv
"$command" train "$programs/regressor.cpp" --data wide.csv --outputs 2 --columns 2 --batch 24 --cache "$work/cache" --out wide > out 2> err
[ $? = 2 ] && grep -q "3 features in a row, the model reads 2: name another --data, or give --columns 3" err || fail "regressor: other columns: $(tail -1 err)"
grep -q "kernels" err && fail "regressor: other columns are said after kernels were compiled: $(cat err)"
"$command" train "$programs/classifier.cpp" --data "$1/apps/digits/data/digits.csv.gz" --steps 100 --optimizer sign-sgd --lr 0.002 \
    --out rule --cache "$work/cache" > rule.out 2> rule.err || fail "a rule of the program: $(tail -1 rule.err)"
"$command" check "$programs/smoother.cpp" --reach 3 --width 8 --cache "$work/cache" > out 2>&1 ||
    fail "check: $(cat out)"
"$command" explain "$programs/smoother.cpp" --cache "$work/cache" > plan 2> err || fail "explain: $(tail -1 err)"
grep -q "next(hidden.weight)" plan || fail "explain does not show the fused update"
# The lines that explain prints are a schedule; a line of it replaces the program's own.
"$command" explain "$programs/smoother.cpp" --ir lines --cache "$work/cache" > printed.schedule 2> err ||
    fail "explain --ir lines: $(tail -1 err)"
grep -q "^s(d(hidden.weight)).compute_at(next(hidden.weight));  // .*smoother.cpp:.*: legal" printed.schedule ||
    fail "the lines of smoother: $(cat printed.schedule)"
"$command" explain "$programs/smoother.cpp" --ir lines --schedule printed.schedule --cache "$work/cache" > again 2> err ||
    fail "explain --schedule: $(tail -1 err)"
cmp -s <(sed 's| *//.*||' printed.schedule) <(sed 's| *//.*||' again) || fail "its own lines change a step: $(cat again)"
"$command" explain "$programs/smoother.cpp" --ir lines --json --cache "$work/cache" > out 2> err
[ $? = 2 ] && grep -q -- "--ir prints the whole step as text: leave out --json" err || fail "--ir with --json: $(cat out err)"
# Numbers of the loops that hold the update are gone where they hold none.
sed 's/compute_at(next(hidden.weight))/compute_root()/; s/^# loops/loops/' printed.schedule > rest.schedule
"$command" explain "$programs/smoother.cpp" --ir lines --schedule rest.schedule --cache "$work/cache" > out 2> err
[ $? != 0 ] && grep -q "rest.schedule:[0-9]*:[0-9]*: no kernel of loops(hidden, d_parameter) has a number 'prefetch'; there are " err ||
    fail "a number that the loops do not have: $(tail -1 err)"
grep -v "^loops(hidden, d_parameter)" rest.schedule > other.schedule
"$command" explain "$programs/smoother.cpp" --ir lines --schedule other.schedule --cache "$work/cache" 2> err |
    grep -q "^s(d(hidden.weight)).compute_root();  // other.schedule:[0-9]*:1: " || fail "a line does not replace the program's: $(tail -1 err)"
echo 's(hiden).compute_root()' > other.schedule
"$command" explain "$programs/smoother.cpp" --schedule other.schedule --cache "$work/cache" > out 2> err && fail "a line of no layer is taken"
grep -q "other.schedule:1:3: the model has no 'hiden'; near it are hidden" err || fail "a name that is not there: $(tail -1 err)"
# The compiler warns of what the user wrote, and of nothing that it inlined from the standard library. A parameter that has the
# name of a flag is refused when the program runs.
sed 's/"block\." + std::to_string(i)/"b" + std::to_string(i) + ".x"/; s/    MyModel() {/    MyModel() {\n        int unused;/
     s/{"layers", 2/{"threads", 2/' "$programs/my_model.cpp" > warned.cpp
grep -q '"b" + std::to_string(i) + ".x"' warned.cpp && grep -q '{"threads", 2' warned.cpp || fail "my_model.cpp has other names now"
"$command" explain warned.cpp --cache "$work/cache" > out 2> err && fail "a GeneratorParam took the name of a flag"
[ "$(grep -c 'warning: ' err)" = 1 ] || fail "one warning is expected: $(cat err)"
grep -q "warned.cpp:.*warning: unused variable 'unused'\|warned.cpp:.*warning: unused variable ‘unused’" err ||
    fail "the user's own mistake: $(cat err)"
grep -q "warned.cpp: the GeneratorParam 'threads' has the name of a flag of cryolite, --threads (threads of each worker): .* rename it, as 'my-threads'" err || fail "a clash of names: $(tail -1 err)"
# A model without its head has too few scores, which is refused, or enough for a padded vocabulary, which is said.
sed 's/return token.transposed(norm(x))/return norm(x)/' "$programs/my_model.cpp" > headless.cpp
grep -q "return norm(x)" headless.cpp || fail "my_model.cpp has another head now"
headless=(train headless.cpp --data "$text" --layers 1 --heads 2 --context 8 --batch 2 --steps 2 --eval-every 0 --cache "$work/cache" --out headless)
"$command" "${headless[@]}" --width 32 > out 2> err
[ $? = 1 ] && grep -q "\[norm\] makes the scores that 'loss' reads, 32 for each row, but the vocabulary has 65 tokens (--vocab): " err ||
    fail "too few scores: $(tail -1 err)"
"$command" "${headless[@]}" --width 80 > out 2> err || fail "more scores than tokens: $(tail -1 err)"
grep -q "^warning: the model's output, which \[norm\] makes, has 80 values for each row, and there are 65 tokens in the vocabulary: " err ||
    fail "more scores than tokens: $(cat err)"
sed 's/{"layers", 2/{"lr", 2/' "$programs/my_model.cpp" > taken.cpp
"$command" explain taken.cpp --cache "$work/cache" > out 2> err
[ $? = 2 ] && grep -q "^cryolite: taken.cpp: the GeneratorParam 'lr' has the name of a flag of cryolite, --lr (learning rate after the warm-up, of the optimizer adamw): " err ||
    fail "a parameter called lr: $(tail -1 err)"
"$command" explain "$programs/my_model.cpp" --no-such-flag --cache "$work/cache" > out 2> err && fail "a flag that is not there is taken"
: > own.cpp
"$command" train own --cache "$work/cache" > out 2> err
[ $? = 2 ] && grep -q 'there is no app "own" (did you mean own.cpp?): .*, or the path of a .cpp of your own$' err || fail "own: $(cat err)"
"$command" explain gpt 'h.*.mlp.c_fc' --preset nano --cache "$work/cache" > out 2> err || fail "explain of what its list says: $(tail -1 err)"

# Frozen weights are those of the start to the last bit, a run goes on with them, and what cannot be is named.
small=(--layers 2 --heads 2 --width 16 --context 8 --batch 2 --steps 6 --checkpoint-every 3 --eval-every 0 --cache "$work/cache")
"$command" train gpt "${small[@]}" --freeze 'w?e.weight' --freeze 'h.0.*,ln_f.bias' --out frozen > out 2> err || fail "freeze: $(tail -1 err)"
grep -q "of them trained" err || fail "freeze: how many parameters are trained is not said"
grep -qF 'freeze = ["w?e.weight", "h.0.*", "ln_f.bias"]' frozen/config.toml || fail "freeze: config.toml has $(grep freeze frozen/config.toml)"
"$command" train gpt "${small[@]}" --config frozen/config.toml --steps 1 --out frozen1 > out 2> err || fail "freeze from a file: $(tail -1 err)"
cat > equal.py <<'PYTHON'
# Of two files of weights those are equal, bit for bit, whose names match: equal.py FILE FILE HOW_MANY PATTERN...
import fnmatch, json, struct, sys
def tensors(path):
    data = open(path, 'rb').read()
    n = struct.unpack('<Q', data[:8])[0]
    return {k: data[8 + n + v['data_offsets'][0]:8 + n + v['data_offsets'][1]] for k, v in json.loads(data[8:8 + n]).items() if k != '__metadata__'}
a, b = map(tensors, sys.argv[1:3])
same = [k for k in a if any(fnmatch.fnmatch(k, p) for p in sys.argv[4:])]
assert len(same) == int(sys.argv[3]), same
assert all((a[k] == b[k]) == (k in same) for k in a), [k for k in a if (a[k] == b[k]) != (k in same)]
PYTHON
python3 equal.py frozen/model.safetensors frozen1/model.safetensors 15 'w?e.weight' 'h.0.*' ln_f.bias || fail "freeze: weights"
"$command" train gpt "${small[@]}" --resume --steps 8 --out frozen > out 2> err && grep -q "going on after step 6" err || fail "freeze, resumed: $(tail -1 err)"
"$command" train gpt "${small[@]}" --resume --steps 9 --freeze 'h.0.*' --out frozen > out 2> err
[ $? = 2 ] && grep -q -- "--freeze is h.0.\*, but the run in" err || fail "freeze changed by a resume: $(tail -1 err)"
"$command" train gpt "${small[@]}" --freeze 'h.*.mpl.*' --out odd > out 2> err
[ $? = 2 ] && grep -q "the nearest are h.0.mlp.c_fc" err || fail "a pattern that matches nothing: $(tail -1 err)"
"$command" explain gpt "${small[@]:0:10}" --freeze 'w?e.weight,h.0.*' --cache "$work/cache" > out 2> err
grep -q "^frozen: .* parameters; spared: .* of optimizer state" out || fail "explain says nothing of frozen parameters: $(tail -1 err)"

# A group of parameters has its own rate: the first step's loss is that of all others, later ones are not; with a rate of 0
# its weights stay what frozen ones are.
losses() { sed -n 's/.*"event":"step".*"loss":\([0-9.]*\).*/\1/p' "$1/metrics.jsonl"; }
"$command" train gpt "${small[@]}" --out plain > out 2> err || fail "without groups: $(tail -1 err)"
"$command" train gpt "${small[@]}" --param-group 'wte=lr:0.1x,decay:0' --param-group 'h.*=lr:0' --out groups > out 2> err ||
    fail "groups: $(tail -1 err)"
[ "$(losses plain | head -1)" = "$(losses groups | head -1)" ] || fail "groups: the first loss is another"
[ "$(losses plain | wc -l)" = 6 ] && [ "$(losses plain | tail -1)" != "$(losses groups | tail -1)" ] || fail "groups: another rate has no effect"
python3 equal.py frozen1/model.safetensors groups/model.safetensors 12 'h.0.*' || fail "groups: weights"
grep -qF 'param-group = ["wte=lr:0.1x,decay:0", "h.*=lr:0"]' groups/config.toml || fail "groups: config.toml has $(grep group groups/config.toml)"
"$command" train gpt "${small[@]}" --resume --steps 8 --out groups > out 2> err && grep -q "going on after step 6" err || fail "groups, resumed: $(tail -1 err)"
"$command" train gpt "${small[@]}" --resume --steps 9 --param-group 'wte=lr:0.2x' --out groups > out 2> err
[ $? = 2 ] && grep -q -- "--param-group is wte=lr:0.2x, but the run in" err || fail "groups changed by a resume: $(tail -1 err)"
"$command" train gpt "${small[@]}" --param-group 'wte=lr:0.1x' --param-group 'h.*.mpl=lr:0' --out odd > out 2> err
[ $? = 2 ] && grep -q "'h.\*.mpl=lr:0' matches no parameter; the nearest are h.0.mlp.c_fc" err || fail "a group that matches nothing: $(tail -1 err)"

[ $failures = 0 ] && echo "all programs compiled and learnt"
exit $((failures > 0))
