#!/bin/bash
# cryolite train as a user meets it, on a tiny model: exact resume, and bad input of every kind.
# usage: train_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2

tiny=(--layers 1 --heads 2 --width 16 --context 8 --batch 2 --warmup 5)
cryolite() { "$command" "$@" --cache "$work/cache"; }
train() { cryolite train "${tiny[@]}" "$@"; }

with=() # what the command is started by
# refused STATUS WORDS ARGUMENTS...: the command ends with this status and says these words.
refused() {
    local status=$1 words=$2 got
    shift 2
    timeout 120 "${with[@]}" "$command" "$@" --cache "$work/cache" > out 2> err
    got=$?
    [ $got = "$status" ] || fail "$*: exit status $got, expected $status: $(tail -1 err)"
    grep -qF -- "$words" err || fail "$*: said '$(tail -1 err)', expected '$words'"
}

# --- A run, whole and in two parts -----------------------------------------------------------------
long=(--steps 400 --eval-every 100 --checkpoint-every 20 --json)
train "${long[@]}" --out whole > whole.json 2> err || fail "train: $(cat err)"
for file in config.toml metrics.jsonl loss.svg sample.txt vocab.json model.safetensors config.json; do
    [ -s whole/$file ] || fail "the run has no $file"
done
for event in compile step eval done; do
    grep -q "^{\"event\":\"$event\"" whole.json || fail "no event $event"
done
[ "$(grep -c '"event":"step"' whole.json)" = 400 ] || fail "not 400 step events"
grep -qE "^done: 400 steps in [0-9:]+; the median of all: [0-9.]+ (ms|µs), [0-9,]+ tokens/s[;,]" err || fail "the last words: $(tail -3 err)"
grep -qx "a sample, 300 tokens or as many as come in 10 s:" err || fail "the sample is not announced: $(cat err)"
[ "$(ls whole/checkpoints | wc -l)" = 2 ] || fail "not 2 checkpoints are kept"

without_times() { sed 's/"tok_s".*"lr"/"lr"/' "$1"; }
same() { # same RUN: it has the bits of the whole run
    for file in model optimizer; do
        cmp -s whole/checkpoints/step-000400/$file.safetensors "$1"/checkpoints/step-000400/$file.safetensors ||
            fail "$1: other bits in $file.safetensors"
    done
    cmp -s <(without_times whole/metrics.jsonl) <(without_times "$1"/metrics.jsonl) || fail "$1: other metrics"
}
interrupt() { # interrupt SIGNAL RUN STATUS [STEP]: after its first checkpoints, or when it begins to evaluate after STEP
    "$command" train "${tiny[@]}" "${long[@]}" --out "$2" --cache "$work/cache" > /dev/null 2> err &
    local pid=$! k=0
    # Two are kept from the second on: waiting for one by its name could miss it.
    while [ "$(ls "$2/checkpoints" 2> /dev/null | wc -l)" -lt 2 ] && [ $((k++)) -lt 3000 ]; do sleep 0.01; done
    while [ -n "${4-}" ] && ! grep -qs "\"step\":$4," "$2/metrics.jsonl" && [ $((k++)) -lt 3000 ]; do sleep 0.01; done
    kill -"$1" $pid
    wait $pid 2> /dev/null
    local got=$?
    [ $got = "$3" ] || fail "after SIG$1: exit status $got, expected $3"
}
interrupt KILL killed 137
echo damage >> "$(ls -d killed/checkpoints/step-* | tail -1)/model.safetensors"
train "${long[@]}" --out killed --resume > /dev/null 2> err || fail "resume: $(cat err)"
grep -q "skipped the checkpoint" err || fail "no word about the damaged checkpoint"
same killed
# An evaluation that is cut short is made up for by the resume, as it is in a run that nobody interrupts.
interrupt INT interrupted 130 100
cryolite train --out interrupted --resume 2> err > /dev/null || fail "resume by the run's own settings: $(cat err)"
same interrupted
# Of the four batches of a text whose third repeats the first, --eval-batches 2 evaluates these two.
printf 'the quick brown ROMEO: what is tthe quick brown ROMEO: what is tt' > four.txt
printf 'the quick brown R' > first.txt
val_loss() { # val_loss RUN TEXT FLAGS...
    train --steps 2 --eval-every 2 --out "$1" --val "$2" --json "${@:3}" 2> err | sed -n 's/.*"val_loss":\([^,}]*\).*/\1/p'
}
all=$(val_loss evaluated4 four.txt --eval-batches 9) first=$(val_loss evaluated1 first.txt)
two=$(val_loss evaluated2 four.txt --eval-batches 2)
[ -n "$first" ] && [ "$two" = "$first" ] && [ "$all" != "$first" ] || fail "--eval-batches: all $all, two $two, the first $first"
grep -q 'validation loss [0-9.]*, of 2 of 4 batches$' err && grep -q '"batches":2}' evaluated2/metrics.jsonl || fail "--eval-batches is not said: $(cat err)"
grep -q '"batches"' evaluated4/metrics.jsonl && fail "all batches are called a part"
# Another rate from there on, and what else may change; it is said.
cryolite train --out interrupted --resume --lr 1e-5 --steps 405 --threads 1 2> err > /dev/null || fail "resume with another rate: $(cat err)"
grep -qE "changed from here on: --lr 0.001 -> 1e-05, --min-lr 0.0001 -> 1e-05, --steps 400 -> 405, --threads all -> 1; the learn" err ||
    fail "what a resume changes is not said: $(cat err)"
cryolite sample whole --prompt ROMEO --tokens 20 --temperature 0 > one 2> err || fail "sample: $(cat err)"
cryolite sample whole --prompt ROMEO --tokens 20 --temperature 0 > two 2> err
cmp -s one two || fail "temperature 0 gives two texts"
grep -qx "reading the weights of step 400" err || fail "sample does not say what it does: $(cat err)"
"$command" sample whole --prompt $'\x01' --cache "$work/empty" > out 2> err
[ $? = 2 ] && grep -q -- "--prompt: " err && ! grep -q kernels err || fail "a prompt out of the vocabulary: $(cat err)"

# --- What explain and cache why say is of the step that train takes -----------------------------------
cryolite explain "${tiny[@]}" > plan 2> err || fail "explain: $(cat err)"
grep -q "all from the cache" err || fail "explain shows another step than train took: $(grep kernels err)"
grep -q "^gpt nano with .*, clip 1: " plan || fail "explain does not name preset and clipping: $(head -1 plan)"
grep -q "^memory of a step: [0-9.]* [kMG]B (.*state [0-9.]* [kMG]B" plan || fail "explain does not say what the memory is of: $(grep memory plan)"
cryolite explain "${tiny[@]}" --clip 0 2> err | grep -q "^gpt nano with .*, no clipping: " || fail "explain --clip 0: $(cat err)"
# One kernel comes with its inner loop, or with what to install to see it.
if command -v llvm-mca-19 > /dev/null; then
    cryolite explain gpt mlp.c_proj "${tiny[@]}" > one 2> err || fail "explain gpt mlp.c_proj: $(cat err)"
    grep -qE "inner loop: [0-9]+ multiply-adds \(0 scalar\) in [0-9]+ instructions, 0 spills; .* cycles, .* %$" one ||
        fail "explain gpt mlp.c_proj shows no inner loop: $(cat err)"
    grep -q "^        vfmadd" one || fail "explain gpt mlp.c_proj lists no multiply-add"
fi
PATH=/nowhere cryolite explain gpt mlp.c_proj "${tiny[@]}" > one 2> err || fail "explain without LLVM: $(cat err)"
grep -q "install the package llvm-19" err || fail "explain without LLVM does not say what to install: $(cat err)"
if grep -q "inner loop" one; then fail "explain shows a loop without the tools for it"; fi
cryolite cache why "${tiny[@]}" > why || fail "cache why"
grep -q "in the cache$" why || fail "cache why shows another step than train took: $(head -1 why)"
cryolite train --help > help
for words in "(1.0, preset nano)" "(2000, preset nano)" "(100, preset nano)" "nano, gpt2" "(1e-3, preset nano)"; do
    grep -qF -- "$words" help || fail "train --help lacks '$words'"
done
cryolite explain --help > help
grep -qF -- "--clip" help || fail "explain --help lacks --clip"
if grep -qE -- "--(lr|warmup|steps|seed|val) " help; then fail "explain --help lists what no plan depends on"; fi
for words in "train vision:(Fashion-MNIST, of Debian's package" "explain vision:(nothing is read" "bench vision:(random rows)" \
             "train:(Tiny Shakespeare, embedded)" "train digits:(digits of 8 x 8 pixels" "check gpt:(nothing is read)"; do
    cryolite ${words%%:*} --help | tr -s ' \n' ' ' | grep -qF -- "${words#*:}" || fail "${words%%:*} --help does not say '${words#*:}' of --data"
done
cryolite explain vision --ir lines > plan 2> err && grep -q "^s.clear()" plan || fail "explain vision without images: $(cat err)"
cryolite bench --help | grep -qF "0: off (0)" || fail "bench --help does not say that it times without clipping"

# Who reads the output may go: no message, the status of SIGPIPE.
exec 7> >(:)
wait $!
cryolite explain gpt "${tiny[@]}" 2> err >&7
[ $? = 141 ] || fail "explain to a closed pipe: $(cat err)"
if grep -q "Broken pipe" err; then fail "explain to a closed pipe says so"; fi
exec 7>&-

# --- What threads do over time ------------------------------------------------------------------------
train --steps 3 --trace t.json --out traced --threads 2 > out 2> err || fail "train --trace: $(cat err)"
grep -q "trace: t.json: [0-9]* events; ui.perfetto.dev opens it" err || fail "train --trace says: $(cat err)"
cryolite bench "${tiny[@]}" --clip 1 --steps 3 --trace b.json > out 2> err || fail "bench --trace: $(cat err)"
cryolite explain "${tiny[@]}" --json > plan.json 2> err || fail "explain --json: $(cat err)"
python3 - << 'END' || fail "a trace is not of what was run"
import json
from collections import Counter
plans = json.load(open("plan.json"))["plans"]
for name, steps in (("t.json", 3), ("b.json", 5)):  # bench has two untimed ones
    events = json.load(open(name))["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    threads = {e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {"main", "loader"} <= threads, threads
    step = [e for e in spans if e["cat"] == "step"]
    assert [e["args"]["number"] for e in step] == list(range(1, steps + 1)), step
    inside = lambda e: any(s["ts"] <= e["ts"] <= s["ts"] + s["dur"] for s in step)
    ran = Counter(e["name"] for e in spans if e["cat"] == "kernel" and inside(e))
    assert ran == Counter(c["name"] for p in ("forward", "step") for c in plans[p] for _ in range(steps)), ran
    assert any(e["cat"] == "loader" for e in spans)
names = {e["name"] for e in json.load(open("t.json"))["traceEvents"]}
assert {"checkpoint", "write parameters", "write optimizer state", "evaluate"} <= names, names
END
refused 1 'nowhere/t.json' train "${tiny[@]}" --trace nowhere/t.json --out untraced
refused 1 'is there and is no trace' train "${tiny[@]}" --trace whole/model.safetensors --out untraced
[ ! -e untraced ] || fail "a run has begun whose trace cannot be written"
refused 2 '--trace and --ablate' bench "${tiny[@]}" --ablate --trace t.json

# --- Bad input -------------------------------------------------------------------------------------
printf '' > empty.txt
printf 'short' > short.txt
printf 'some\0binary data, and more of it' > binary.txt
printf 'caf\xe9 and other words that are not UTF-8' > latin.txt
printf 'abcdefghijklmnop%.0s' $(seq 100) > fine.txt
[ "$(stat -c %h whole/model.safetensors)" = 1 ] || fail "what rewrites the run's model rewrites its checkpoint"
head -c 100 whole/model.safetensors > cut.safetensors
mkdir full && echo x > full/file
{ # a token shard: magic, version, count, 253 zeros, then tokens 0 ... 69, again and again
    printf '\x88\xd8\x34\x01\x01\0\0\0\xe8\x03\0\0'
    head -c 1012 /dev/zero
    for i in $(seq 0 999); do printf "\\x$(printf %02x $((i % 70)))\\0"; done
} > shard.bin
printf '\0\0\0\0\0\0\0\x10{}' > hostile.safetensors
refused 2 '"--stepz"' train --stepz 3
"$command" train --steps 2> err
[ $? = 2 ] && grep -qF -- "--steps is the last word: its value, N, is missing; see cryolite train --help" err || fail "train --steps: $(cat err)"
refused 2 '"bogus": expected ls, verify, clear, import, export, why' cache bogus
refused 2 '(did you mean verify?)' cache verfy
refused 2 'did you mean --steps?' train --stepz 3
refused 2 'there is no app "gtp" (did you mean gpt?): expected ' train gtp
refused 2 '"--learning-rate" is not a flag of cryolite train gpt (did you mean --lr?)' train gpt --learning-rate 1e-3
refused 2 '"gpt2" is not a flag of cryolite train gpt (did you mean --preset gpt2?)' train gpt gpt2
refused 2 '--preset is "nanno"' train --preset nanno
refused 2 '--lr is "nan"' train --lr nan
refused 2 'width 20 is not divisible by 3 heads (--heads 3, --width 20)' train --width 20 --heads 3
refused 2 '--optimizer is "nonsense", expected adamw or sgd' train --optimizer nonsense
refused 2 '--beta2 is "x"' train --beta2 x
refused 2 'missing.txt' train "${tiny[@]}" --data missing.txt
refused 2 'the file is empty' train "${tiny[@]}" --data empty.txt
refused 2 'a zero byte at offset 4' train "${tiny[@]}" --data binary.txt
refused 2 'at offset 3' train "${tiny[@]}" --data latin.txt
refused 2 'context 8 needs at least 9' train "${tiny[@]}" --data short.txt
refused 2 'give --vocab' train "${tiny[@]}" --data shard.bin
refused 2 'token 69 at byte 1162' train "${tiny[@]}" --data shard.bin --vocab 69
refused 2 "less than 2^31; use fewer or smaller" train --steps 1 --width 16777216
refused 2 'GB are available' train --steps 1 --layers 3000 --width 1600 --heads 25
refused 2 'hostile.safetensors' train "${tiny[@]}" --init hostile.safetensors
refused 2 'cut.safetensors' train "${tiny[@]}" --init cut.safetensors
refused 2 'shape [65, 16]' train "${tiny[@]}" --init whole/model.safetensors --vocab 70
refused 2 'may be enlarged, not shrunk' train "${tiny[@]}" --vocab 64
refused 2 'context 65 is longer than the 64 positions' train "${tiny[@]}" --context 65 --positions 64
refused 2 'is not empty' train "${tiny[@]}" --out full
refused 2 'made with 2' train --out whole --resume --batch 3
refused 2 'not what the run in whole was trained on' train --out whole --resume --data fine.txt --vocab 65
refused 2 'is a file, expected a folder' train "${tiny[@]}" --out fine.txt
mkfifo pipe.txt
refused 2 'it is a pipe' train "${tiny[@]}" --data pipe.txt
refused 2 'it is a pipe' train "${tiny[@]}" --val pipe.txt
refused 2 'it is a pipe' train "${tiny[@]}" --config pipe.txt
{ cat shard.bin; echo more; } > long.bin
refused 2 '5 more than the 3024 that its header says' train "${tiny[@]}" --data long.bin --vocab 70
refused 2 'nosuch.cpp: No such file' train nosuch.cpp
# Tokens that change while they are trained on: named, and what was learned is kept.
cp shard.bin live.bin
train --data live.bin --vocab 70 --steps 1000000 --checkpoint-every 0 --out live > out 2> err &
pid=$! k=0
while [ "$(cat live/metrics.jsonl 2> /dev/null | wc -l)" -lt 20 ] && [ $((k++)) -lt 3000 ]; do sleep 0.01; done
truncate -s 1500 live.bin
wait $pid
got=$?
[ $got = 1 ] || fail "a shard that shrinks: exit status $got: $(tail -3 err)"
grep -q "^cryolite: live.bin: it had 3024 bytes and " err || fail "a shard that shrinks is not named: $(tail -3 err)"
learned=$(ls live/checkpoints)
[ "$(grep -c '"event":"step"' live/metrics.jsonl)" = $((10#${learned#step-})) ] || fail "not all steps are kept: $learned"
cp shard.bin live.bin
cryolite train --out live --resume --steps $((10#${learned#step-} + 5)) > out 2> err || fail "the shard put back: $(cat err)"
refused 2 '"-x" is not a flag of cryolite train' train -x
"$command" cache ls --cache nowhere 2> err > /dev/null
[ $? = 2 ] && grep -q 'there is no cache in nowhere' err || fail "cache ls of no folder: $(cat err)"
refused 2 '--min-lr is "1", expected at most --lr' train --min-lr 1
refused 2 'for --width 16, but this model has 32' train "${tiny[@]}" --width 32 --init whole/model.safetensors
refused 2 'it does not have 2 layers, as this model does' train "${tiny[@]}" --layers 2 --init whole/model.safetensors

# --- Numbers that are not finite -------------------------------------------------------------------
# The last four bytes of the file are a value of its last tensor.
{ head -c -4 whole/model.safetensors; printf '\0\0\300\177'; } > nan.safetensors
refused 2 "has the value nan at index" train "${tiny[@]}" --init nan.safetensors
grep -q "nan.safetensors: tensor '[a-z0-9._]*' has" err || fail "a nan in --init: $(cat err)"
refused 1 'not finite any more' train "${tiny[@]}" --out burst --lr 1e30 --warmup 0 --min-lr 0 --weight-decay 1e30 --steps 1 --eval-every 0
[ -z "$(ls burst/checkpoints 2> /dev/null)" ] || fail "weights that are not finite were published: $(ls burst/checkpoints)"

# --- --resume with nothing to resume ---------------------------------------------------------------
train --steps 2 --out fresh --resume > /dev/null 2> err || fail "--resume in a new folder: $(cat err)"
grep -q "warning: --resume found no checkpoint in fresh: beginning at step 0" err || fail "no warning: $(cat err)"
train --steps 3 --out fresh --resume > /dev/null 2> err || fail "--resume: $(cat err)"
if grep -q "warning: --resume" err; then fail "a warning although there was a checkpoint"; fi

# --- --resume where it may not begin again -----------------------------------------------------------
contents() { (cd "$1" && find . -type f -exec sha256sum {} + | sort && find . | sort); }
unchanged() { # unchanged RUN STATUS WORDS ARGUMENTS...: refused, with everything in RUN as it was
    local run=$1
    contents "$run" > before
    shift
    refused "$@"
    contents "$run" | cmp -s before - || fail "$*: something in $run has changed"
}
cp -r whole both
for file in both/checkpoints/*/model.safetensors; do printf x | dd of="$file" bs=1 seek=5000 conv=notrunc 2> dd; done
unchanged both 1 'no checkpoint in both can be used, and nothing there was changed' train --out both --resume
[ "$(grep -c 'step-000[0-9]*: model.safetensors has changed since it was written' err)" = 2 ] || fail "not both are named: $(cat err)"
unchanged both 1 'no checkpoint in both' train "${tiny[@]}" "${long[@]}" --out both --resume
mkdir somebody && cp whole/model.safetensors somebody
unchanged somebody 2 'somebody is not the folder of a run: it has model.safetensors' train "${tiny[@]}" --out somebody --resume
for number in 5 13 24 116; do # EIO, EACCES, EMFILE, ESTALE
    with=(env LD_PRELOAD="$2/tests/libcryolite_faults.so" CRYOLITE_FAULT_PATH='*/step-000400/manifest.json' CRYOLITE_FAULT=error
          CRYOLITE_FAULT_AT=1 CRYOLITE_FAULT_ERRNO=$number)
    unchanged whole 1 'step-000400/manifest.json: ' train --out whole --resume
done
with=()

# --- Whole runs, and those that are made whole -------------------------------------------------------
cryolite_runs() { "$command" runs "$@" > out 2> err; }
cryolite_runs verify whole interrupted || fail "runs verify: $(cat out err)"
grep -q "^whole: whole: 2 checkpoints, the newest of step 400$" out || fail "runs verify says: $(cat out)"
cp whole/checkpoints/*380/model.safetensors whole
cryolite_runs verify whole
[ $? = 1 ] && grep -q "^whole: model.safetensors is not that of step-000400$" out || fail "a stale result: $(cat out err)"
cryolite train --out whole --resume > out 2> err || fail "a resume with nothing to do: $(cat err)"
grep -q "has its 400 steps already" err || fail "a resume with nothing to do: $(cat err)"
cryolite_runs verify whole || fail "a resume does not make the result whole: $(cat out err)"
cryolite_runs ls . && grep -qE "^./whole +gpt +400/400 " out && grep -q "^./fresh " out || fail "runs ls: $(cat out err)"
cryolite_runs compare whole fresh --out both.svg || fail "runs compare: $(cat err)"
grep -qE "^steps +400 +3$" out || fail "runs compare does not say what differs: $(cat out)"
if grep -qE "^(width|app) " out; then fail "runs compare shows what does not differ: $(cat out)"; fi
[ "$(grep -oE ">(whole|fresh)<" both.svg | sort -u | wc -l)" = 2 ] || fail "runs compare draws not both runs"
cryolite_runs compare whole somebody
[ $? = 2 ] && grep -q "somebody" err || fail "runs compare with a folder that is no run's: $(cat out err)"
for words in "runs bogus" "runs" "runs verify" "runs verify nowhere" "runs ls nowhere" "runs compare whole" "runs compare whole nowhere"; do
    "$command" $words > out 2> err
    [ $? = 2 ] || fail "$words: $(cat out err)"
done
cryolite_runs ls whole/metrics.jsonl
[ $? = 2 ] && grep -qF "whole/metrics.jsonl is a file, expected a folder of runs" err || fail "runs ls of a file: $(cat err)"
cp -r fresh damaged && printf '<svg>\n<text>\n' > damaged/metrics.jsonl
for words in "ls ." "ls damaged --json" "compare damaged fresh --out damaged.svg"; do
    cryolite_runs $words
    [ $? = 1 ] && grep -q "damaged: 2 lines of metrics.jsonl are not JSON: .* cryolite runs verify" err && grep -q damaged out ||
        fail "runs $words of damaged metrics: $(cat out err)"
done
cryolite_runs --help && grep -q verify out || fail "runs --help: $(cat out err)"
refused 2 'lr' bench "${tiny[@]}" --lr x
refused 2 'there is no run in nowhere' sample nowhere
[ ! -e runs ] || [ -z "$(ls runs)" ] || fail "refused runs left folders: $(ls runs)"
# What only others may read or write: to root, who may everything, shown as another user.
as=()
if [ "$(id -u)" = 0 ]; then as=(setpriv --reuid 65534 --regid 65534 --clear-groups); fi
chmod 755 "$work"
if ! "${as[@]}" test -x "$command" 2> /dev/null; then
    echo "not tested here, as root may everything: permissions"
else
    closed() { # closed STATUS WORDS FOLDER ARGUMENTS...
        local status=$1 words=$2 folder=$3 got
        shift 3
        (cd "$folder" && "${as[@]}" env XDG_CACHE_HOME="$work/own" timeout 120 "$command" "$@" 2> "$work/err" > /dev/null)
        got=$?
        [ $got = "$status" ] || fail "$*: exit status $got, expected $status: $(tail -1 err)"
        grep -qF -- "$words" err || fail "$*: said '$(tail -1 err)', expected '$words'"
    }
    mkdir -m 500 closed plain
    mkdir -m 311 dark
    mkdir -m 777 own
    touch secret.cpp && chmod 000 secret.cpp
    if [ "$(id -u)" = 0 ]; then chmod 700 closed && chmod 555 plain; fi
    closed 1 'closed/run' . train "${tiny[@]}" --out closed/run
    closed 1 'in .: Permission denied' plain train "${tiny[@]}"
    closed 2 'cannot read secret.cpp: Permission denied' . train secret.cpp
    chmod 000 closed
    closed 2 'cannot read the run in closed/run: Permission denied' . sample closed/run
    closed 2 'cannot read the cache in dark: Permission denied' . cache verify --cache dark
    chmod 700 closed dark plain
fi

[ $failures = 0 ] && echo "train_test: all fine"
exit $((failures > 0))
