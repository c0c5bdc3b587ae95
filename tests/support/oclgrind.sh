# What tests of steps within Oclgrind share, which interprets every work item; sourced after support/script.sh. It ends the
# test where Oclgrind is missing, or says nothing of a race that there is.
command -v oclgrind > /dev/null || { echo "skipped: oclgrind is missing: install oclgrind"; exit 0; }
echo 'kernel void race(global int *a) { a[0] = a[get_global_id(0) & 1] + 1; }' > race.cl
printf 'race.cl\nrace\n4 1 1\n2 1 1\n<size=16 fill=0 int>\n' > race.sim
oclgrind-kernel --data-races --log log race.sim > out 2>&1
grep -q "data race" log || fail "a race is not seen: $(cat out log)"

losses() { sed -n 's/.*"step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1"; }

# Two steps of a model: nothing is found in any kernel, and the losses are the CPU's to 1e-4.
clean() { # clean NAME ARGUMENTS...
    local name=$1
    shift
    local run=(train "$@" --steps 2 --eval-every 0 --checkpoint-every 0 --json --cache "$work/cache")
    "$command" "${run[@]}" --out "$name-cpu" > cpu 2> err || { fail "$name on the CPU: $(tail -2 err)"; return; }
    # It ends by a fault of its own library, after the run: what counts is that the run was done.
    oclgrind --data-races --inst-counts --log log "$command" "${run[@]}" --device opencl --out "$name-ocl" > ocl 2> err
    grep -q '"event":"done"' ocl || { fail "$name within Oclgrind: $(tail -2 err)"; return; }
    grep -q "Instructions executed for kernel" ocl err log || fail "$name: no kernel ran within Oclgrind"
    [ ! -s log ] || fail "$name: $(head -12 log)"
    paste <(losses cpu) <(losses ocl) |
        awk '{d = $2 - $4; if ($1 != $3 || d * d > 1e-8 * $2 * $2) bad = 1} END {exit bad || NR != 2}' ||
        fail "$name: losses on the CPU $(losses cpu | tr '\n' ' '), within Oclgrind $(losses ocl | tr '\n' ' ')"
}
