#!/bin/bash
# Every file of a run and of the cache, damaged: the run goes on with the bits of a whole one, or ends with a named error;
# never a crash, never another result in silence. usage: mutation.sh SOURCE BUILD [DAMAGES OF EACH FILE: 20]
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
times=${3:-20}
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 5 --eval-every 0 --checkpoint-every 3 --keep 2)
"$command" train "${tiny[@]}" --steps 6 --out begun --cache "$work/cache" > /dev/null 2> err || { fail "train: $(cat err)"; exit 1; }
cp -R begun whole
"$command" train --out whole --resume --steps 9 --cache "$work/cache" > /dev/null 2> err || { fail "resume: $(cat err)"; exit 1; }
"$command" sample whole --tokens 9 --temperature 0 --cache "$work/cache" > sample 2> err || { fail "sample: $(cat err)"; exit 1; }

damage() { # damage FILE SEED: a bit flipped, cut, or longer
    local size at byte
    RANDOM=$2
    size=$(stat -c %s "$1")
    at=$(((RANDOM * 32768 + RANDOM) % (size > 0 ? size : 1)))
    case $((RANDOM % 4)) in
        0 | 1)
            byte=$(od -An -tu1 -j $at -N 1 "$1")
            printf "\\x$(printf %02x $((${byte:-0} ^ (1 << RANDOM % 8))))" | dd of="$1" bs=1 seek=$at conv=notrunc 2> /dev/null ;;
        2) truncate -s $at "$1" ;;
        3) head -c $((RANDOM % 100 + 1)) /dev/urandom >> "$1" ;;
    esac
}
judge() { # judge STATUS WHAT: of the run `goes`; only its rates may be others, where its own file says so
    [ "$1" -le 2 ] || { fail "$2: status $1: $(tail -2 err)"; return; }
    if [ "$1" != 0 ]; then
        grep -q "^cryolite: ." err && ! grep -qE "json\.exception|std::|basic_string" err || fail "$2: a raw error: $(tail -1 err)"
    elif ! cmp -s whole/model.safetensors goes/model.safetensors; then
        case $2 in *config.toml*) ;; *) fail "$2: another result" ;; esac
    fi
}

(cd begun && find . -type f | sort) > files
while read -r file <&3; do
    for seed in $(seq "$times"); do
        rm -rf goes && cp -R begun goes
        damage "goes/$file" "$seed"
        timeout 120 "$command" train --out goes --resume --steps 9 --cache "$work/cache" > /dev/null 2> err
        judge $? "$file, damage $seed"
        case $file in ./model.safetensors | ./config.toml | ./vocab.json) # what sample reads
            rm -rf goes && cp -R whole goes
            damage "goes/$file" "$seed"
            timeout 120 "$command" sample goes --tokens 9 --temperature 0 --cache "$work/cache" > text 2> err
            got=$?
            [ $got -le 2 ] || fail "sample, $file, damage $seed: status $got: $(tail -1 err)" ;;
        esac
    done
done 3< files

cp -R cache kept
(cd cache && find . -type f ! -path './locks/*' | sort) > files
# Kernels are many and alike.
{ grep -v '^./kernels/' files; grep '^./kernels/' files | head -3; } > some
while read -r file <&3; do
    for seed in $(seq "$times"); do
        rm -rf goes cache && cp -R begun goes && cp -R kept cache
        damage "cache/$file" "$seed"
        timeout 300 "$command" train --out goes --resume --steps 9 --cache "$work/cache" > /dev/null 2> err
        got=$?
        [ $got = 0 ] || fail "cache/$file, damage $seed: status $got: $(tail -2 err)"
        judge $got "cache/$file, damage $seed"
    done
done 3< some
[ $failures = 0 ] && echo "no damage was met with a crash or another result"
exit $((failures > 0))
