#!/bin/bash
# `bench --peers`: PyTorch's scripts take every parameter of the programs that name them, and their times stand beside ours;
# without PyTorch the reason is said. Nothing here needs PyTorch. usage: peers_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
tiny=(--layers 1 --width 16 --batch 2 --clip 1 --steps 1 --cache "$work/cache" --json)
text=(--heads 2 --context 8 --vocab 65)

# A Python that reads the script's arguments, and then finds no torch.
cat > no_torch << 'END'
#!/bin/sh
export THP_MEM_ALLOC_ENABLE=1
exec python3 -c 'import os, runpy, sys
sys.modules["torch"], sys.argv = None, sys.argv[3:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")' "$@"
END
# A Python whose steps take a tenth of a second.
cat > answers << 'END'
#!/bin/sh
echo '{"ready": "torch 0"}'
while read -r _; do echo '{"times": [0.1, 0.1], "peak_rss_mb": 5}'; done
END
chmod +x no_torch answers

for app in gpt llama resnet vit; do
    case $app in
    resnet | vit) flags=(vision --preset $app --size 8 "${tiny[@]}") ;;
    *) flags=($app "${text[@]}" "${tiny[@]}") ;;
    esac
    CRYOLITE_PEERS_PYTHON=$work/no_torch "$command" bench "${flags[@]}" --peers > out 2> err
    [ $? = 1 ] || fail "$app without torch: another status than 1"
    [ "$(grep -c 'it ended early' err)" = 3 ] && [ "$(grep -c 'import of torch halted' err)" = 3 ] ||
        fail "$app: its script does not come as far as its import of torch: $(cat err)"
    CRYOLITE_PEERS_PYTHON=$work/answers "$command" bench "${flags[@]}" --peers > out 2> err || fail "$app: $(tail -3 err)"
    [ "$(grep '"event":"peer"' out | grep -c '"best_s":0.1,"median_s":0.1')" = 3 ] || fail "$app: $(cat out)"
done
recurrent=(bench "$1/tests/programs/recurrent.cpp" --layers 1 --width 16 --context 8 --batch 2 --vocab 65 --steps 1 --cache "$work/cache" --json)
CRYOLITE_PEERS_PYTHON=$work/no_torch "$command" "${recurrent[@]}" --peers > out 2> err
[ "$(grep -c 'import of torch halted' err)" = 3 ] || fail "recurrent: its script does not come as far as its import of torch: $(cat err)"
"$command" bench digits --peers --steps 1 --cache "$work/cache" > out 2> err
[ $? = 2 ] && grep -q 'names no PyTorch script that does the same work' err || fail "digits: $(cat err)"
exit $((failures > 0))
