#!/bin/bash
# A file that a flag names is replaced where it is of the same kind: anything else is refused, before the work, and stays.
# usage: overwrite_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --threads 1 --cache "$work/cache")

cp "$1/tests/programs/regressor.cpp" model.cpp
printf 'notes\n' > notes.txt
mkdir folder
kept() { # kept WORDS FILE COMMAND...
    local words=$1 file=$2 before
    before=$(cksum "$file")
    timeout 300 "$command" "${@:3}" > out 2> err < /dev/null
    [ $? = 2 ] && grep -qF -- "$words" err || fail "${*:3}: $(cat err)"
    [ "$(cksum "$file")" = "$before" ] || fail "${*:3}: $file was replaced"
}
kept "--html model.cpp: it is there and is no page of Cryolite: name another file, or remove it" model.cpp explain gpt "${tiny[@]}" --html model.cpp
kept "--html folder is a folder, expected a file" notes.txt explain gpt "${tiny[@]}" --html folder
kept "--report notes.txt: it is there and is no page" notes.txt tune gpt "${tiny[@]}" --for 1s --report notes.txt
kept "--export notes.txt: it is there and is no file of lines" notes.txt tune gpt "${tiny[@]}" --export notes.txt
[ ! -e cache ] || [ -z "$(find cache -name '*.o')" ] || fail "kernels were compiled before a file was refused"
: > empty.html
for times in 1 2; do # an empty file has nothing to lose, a page is replaced by a newer one
    timeout 300 "$command" explain gpt "${tiny[@]}" --html empty.html > out 2> err || fail "a page, $times: $(cat err)"
done

# --- Runs ---------------------------------------------------------------------------------------------
for run in a b; do
    "$command" train gpt "${tiny[@]}" --steps 2 --eval-every 0 --out runs/$run > out 2> err || fail "train: $(cat err)"
done
for file in metrics.jsonl loss.svg config.toml; do
    kept "is there and is no picture of runs compare" runs/a/$file runs compare runs/a runs/b --out runs/a/$file
done
for times in 1 2; do "$command" runs compare runs/a runs/b > out 2> err || fail "runs compare, $times: $(cat err)"; done

[ $failures = 0 ] && echo "nothing is lost to a flag"
exit $((failures > 0))
