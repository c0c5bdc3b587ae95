#!/bin/bash
# Steps of a GPT and of digits on OpenCL within Oclgrind: no race, no access out of bounds, no barrier that some items of a group
# do not reach. usage: oclgrind_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
. "$1/tests/support/oclgrind.sh"

tiny=(--layers 1 --heads 2 --width 12 --context 7 --batch 3)
clean gpt gpt "${tiny[@]}" --clip 1 --dropout 0.1
clean bf16 gpt "${tiny[@]}" --clip 1 --precision bf16 --update backward
clean fp16 gpt "${tiny[@]}" --precision fp16
clean digits digits --batch 5
exit $((failures > 0))
