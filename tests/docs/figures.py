"""The tables of figures in the documents are those of docs/measured.json.

usage: figures.py SOURCE [--write]     --write: makes the tables anew

A table stands after the line `<!-- figures: NAME -->` and is that of this name: its columns and rows as text, with the machine
and the commit that they were measured on, which the document has to name.
"""
import json
import pathlib
import re
import sys


def table_text(table):
    lines = [table["columns"], ["---"] * len(table["columns"])] + table["rows"]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines).replace("| --- ", "|---").replace("---|", "---|")


def check(source, write=False):
    """The mistakes, in words."""
    source = pathlib.Path(source)
    figures = json.loads((source / "docs/measured.json").read_text())
    mistakes, shown = [], set()
    for path in [source / "README.md", *sorted((source / "docs").glob("*.md"))]:
        text = path.read_text()
        for mark in list(re.finditer(r"<!-- figures: (\S+) -->\n((?:\|.*\n)*)", text)):
            name, found = mark.groups()
            where = f"{path.relative_to(source)}: {name}"
            table = figures["tables"].get(name)
            if not table:
                mistakes.append(f"{where} is not in docs/measured.json")
                continue
            shown.add(name)
            if any(len(row) != len(table["columns"]) for row in table["rows"]):
                mistakes.append(f"{where}: a row has not as many cells as there are columns")
            if not table.get("machine") or not table.get("commit"):
                mistakes.append(f"{where} lacks its machine or its commit")
            for commit in re.findall(r"\b[0-9a-f]{7}\b", table.get("commit", "")):
                if path.name != "README.md" and commit not in text:
                    mistakes.append(f"{where} is of commit {commit}, which {path.relative_to(source)} does not name")
            expected = table_text(table)
            if found != expected and write:
                path.write_text(path.read_text().replace(mark.group(0), f"<!-- figures: {name} -->\n{expected}"))
            elif found != expected:
                mistakes.append(f"{where} is not as docs/measured.json has it: python3 tests/docs/figures.py . --write")
    mistakes += [f"docs/measured.json: no document shows {name}" for name in figures["tables"] if name not in shown]
    return mistakes


def check_itself(source):
    """A changed figure, an unknown table and one that is not shown have to be found."""
    import shutil
    import tempfile

    def with_change(file, old, new):
        with tempfile.TemporaryDirectory() as folder:
            copy = pathlib.Path(folder)
            shutil.copy(pathlib.Path(source) / "README.md", copy)
            shutil.copytree(pathlib.Path(source) / "docs", copy / "docs")
            path = copy / file
            assert old in path.read_text(), (file, old)
            path.write_text(path.read_text().replace(old, new, 1))
            return check(copy)

    assert with_change("docs/measured.md", ".0114", ".0113"), "a changed figure is not found"
    assert with_change("README.md", "figures: steps", "figures: other"), "an unknown table is not found"
    assert with_change("docs/measured.json", '"commit": "ace28ad"', '"commit": ""'), "a missing commit is not found"
    assert with_change("docs/measured.json", '"ace28ad"', '"0123abc"'), "a commit that the page does not name is not found"


if __name__ == "__main__":
    found = check(sys.argv[1], "--write" in sys.argv[2:])
    print("\n".join(found))
    if not found:
        check_itself(sys.argv[1])
    sys.exit(bool(found))
