# What the tests of exported libraries for other processors share.
[ "$(uname -m)" = x86_64 ] || { echo "skipped: this machine is no x86-64"; exit 0; }
tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 0 --lr 1e-3 --min-lr 1e-3 --cache "$work/cache")
train_with="$1/tests/install/export/train_with.c"

near() { # near WHAT GOT EXPECTED: losses of 20 steps
    paste "$2" "$3" | awk '{ d = $4 - $8; if (d < 0) d = -d; if (d > 1e-5) exit 1; n++ } END { exit n != 20 }' ||
        fail "$1: other losses: $(paste "$2" "$3" | tail -n 3)"
}
refused() { # refused STATUS WORDS FLAGS...: before anything is compiled; `path`: where tools are
    PATH=${path:-$PATH} "$command" "${@:3}" > out 2> err
    [ $? = "$1" ] || fail "${*:3}: ended otherwise than with $1"
    grep -qF -- "$2" err || fail "${*:3}: said '$(cat err)', expected '$2'"
}
