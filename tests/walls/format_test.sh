#!/bin/bash
# Every source is as .clang-format has it: clang-format-14 -i FILE makes it so. usage: format_test.sh SOURCE [--write]
# With --write after it, it corrects them, but for comments and strings beyond 120 columns, which clang-format leaves.
# Another version of clang-format breaks other lines.
cd "${1:?usage: format_test.sh SOURCE [--write]}" || exit 2
# Two headers of Halide's are copied unchanged, one table is generated.
mapfile -t sources < <(find bundle dsl schedules dialects generators runtime client apps tests -name '*.h' -o -name '*.cpp' |
    grep -vE '^runtime/halide/|/unicode_ranges\.h$')
[ "${#sources[@]}" -gt 200 ] || { echo "only ${#sources[@]} sources were found: correct this test"; exit 1; }
format=
for name in clang-format-14 clang-format; do
    if "$name" --version 2> /dev/null | grep -q 'version 14\.'; then format=$name; break; fi
done
# The files to correct, a name on a line each. Others are not written, so that nothing is built again for them.
wrong() {
    "$format" --dry-run --Werror "${sources[@]}" > /dev/null 2> /tmp/format.$$
    local status=$?
    sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: error: .*/\1/p' /tmp/format.$$ | sort -u
    return $status
}
if [ "${2-}" = --write ] && [ -n "$format" ]; then wrong | xargs -rd '\n' "$format" -i; fi
beyond=$(LC_ALL=C.UTF-8 grep -nE '.{121}' "${sources[@]}" | cut -d: -f1,2)
[ -z "$beyond" ] || { echo "these lines are longer than 120 columns: break them"; echo "$beyond" | head -20; }
if [ -z "$format" ]; then
    [ -z "$beyond" ] || exit 1
    echo "skipped: there is no clang-format 14 here: install the package 'clang-format-14'"
    exit 0
fi
left=$(wrong)
status=$?
[ $status = 0 ] || [ -n "$left" ] || { echo "$format fails:"; tail -3 /tmp/format.$$; }
rm -f /tmp/format.$$
if [ -n "$left" ]; then
    echo "these files are not as .clang-format has them: tests/walls/format_test.sh . --write corrects them"
    echo "$left" | head -20
fi
[ $status = 0 ] && [ -z "$beyond" ]
