#!/bin/bash
# The same as oclgrind_test.sh of other models: a Llama, networks of images, a recurrence, views. They have what a GPT has not:
# rotary positions, BatchNorm, GroupNorm, resizing, a scan, arrays that are parts of others.
# usage: oclgrind_models_test.sh SOURCE BUILD
. "${1:?usage: $0 SOURCE BUILD}/tests/support/script.sh" || exit 2
. "$1/tests/support/oclgrind.sh"
programs=$1/tests/programs

# Images of 8 x 8 in IDX files: bytes of a formula, in three classes.
big_endian() { for n; do printf '%b' "$(printf '\\0%o' $((n >> 24 & 255)) $((n >> 16 & 255)) $((n >> 8 & 255)) $((n & 255)))"; done; }
mkdir idx
for part in train t10k; do
    { printf '\0\0\10\3' && big_endian 12 8 8; for ((i = 0; i < 768; i++)); do printf '%b' "$(printf '\\0%o' $((i * i * 7 % 251)))"; done; } > idx/$part-images-idx3-ubyte
    { printf '\0\0\10\1' && big_endian 12; printf '\0\1\2\0\1\2\0\1\2\0\1\2'; } > idx/$part-labels-idx1-ubyte
done
# Rows of 35 numbers, in three classes.
awk 'BEGIN {for (i = 0; i < 180; i++) {for (c = 0; c < 35; c++) printf "%.3f,", (i * 35 + c) * 7 % 101 / 101 - 0.5; print i % 3}}' > rows.csv

clean llama llama --layers 1 --heads 2 --kv-heads 1 --width 12 --hidden 20 --context 7 --batch 3
images=(vision --data idx --size 8 --layers 1 --batch 3 --shift 0 --flip no)
clean resnet "${images[@]}" --width 3 --heads 1
clean vit "${images[@]}" --transformer true --width 10 --heads 2 --patch 4 --clip 1
clean images "$programs/images.cpp" --data "$1/apps/digits/data/digits.csv.gz" --batch 3
clean recurrent "$programs/recurrent.cpp" --layers 1 --width 10 --context 7 --batch 3 --data "$1/apps/gpt/data/tinyshakespeare.txt"
clean views "$programs/views.cpp" --data rows.csv --batch 133 --half 128 # where a slice may begin on any device
exit $((failures > 0))
