#!/bin/sh
# Every link of a document to a file of the project leads to one. usage: links.sh SOURCE_DIR
cd "$1" || exit 2
status=0 links=0
for page in README.md $(find dsl schedules generators bundle dialects runtime client apps tests docs -name '*.md'); do
    for link in $(grep -oE '\]\([^)# ]+' "$page" | sed 's/^](//' | grep -v '^[a-z]*:'); do
        links=$((links + 1))
        [ -e "$(dirname "$page")/$link" ] && continue
        echo "$page links to $link, which is not there"
        status=1
    done
done
[ "$links" -gt 20 ] || { echo "only $links links were found: correct this test"; exit 1; }
exit $status
