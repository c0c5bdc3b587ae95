"""Every command in the documents has a hidden line, an HTML comment after its block, and these lines run.

usage: commands.py SOURCE           checks that each command has its line, and the C++ that is shown against its sources
       commands.py SOURCE BUILD     runs them as well, in a folder of their own with one cache

A hidden line is `<!-- run: COMMAND -->`, the same command with small flags, for the shell; `<!-- needs PROGRAM: COMMAND -->`, left
out where there is no such program; or `<!-- not run: WHY -->`. A block's lines are in the order of its commands.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

COMMAND = re.compile(r"^    (?:\./cryolite|build/|cmake |mpirun |tools/|tests/|\.venv/|cd )")
HIDDEN = re.compile(r"^<!-- (run|needs \S+|not run): (.*) -->$")


def documents(source):
    names = ["README.md", "CONTRIBUTING.md", *sorted(str(p.relative_to(source)) for p in (source / "docs").glob("*.md"))]
    names += sorted(str(p.relative_to(source)) for p in (source / "apps").glob("*/README.md"))
    return [name for name in names if name != "docs/changes.md"]


def lines_of(source):
    """(place, kind, command) of every hidden line; what is missing, in words."""
    found, missing = [], []
    for name in documents(source):
        lines = (source / name).read_text().split("\n")
        at = 0
        while at < len(lines):
            if not COMMAND.match(lines[at]):
                at += 1
                continue
            begin, commands = at, 0
            while at < len(lines) and lines[at].startswith("    "):
                commands += bool(COMMAND.match(lines[at]))
                at += 1
            hidden = []
            while at < len(lines) and (not lines[at] or HIDDEN.match(lines[at])):
                if lines[at]:
                    kind, text = HIDDEN.match(lines[at]).groups()
                    hidden.append((f"{name}:{at + 1}", kind, text))
                at += 1
            if len(hidden) != commands:
                missing.append(f"{name}:{begin + 1}: a block of {commands} commands has {len(hidden)} hidden lines")
            found += hidden
    return found, missing


def wrong_version(source):
    """The first release in docs/changes.md has to be the project's version; what comes after it may stand above."""
    version = re.search(r"project\(cryolite VERSION (\S+)", (source / "CMakeLists.txt").read_text()).group(1)
    sections = re.findall(r"^## (.*)$", (source / "docs/changes.md").read_text(), re.M)
    if sections[sections[:1] == ["Unreleased"]:][:1] != [version]:
        return [f"docs/changes.md: the newest release is not {version}, as CMakeLists.txt has it"]
    return []


TUTORIAL = ("smollm2.cpp", "my_model.cpp", "flowers.cpp", "regressor.cpp")


def code_of(document):
    """The lines of a document's blocks of C++."""
    return "".join(re.findall(r"^```cpp\n(.*?)^```$", document.read_text(), re.M | re.S))


def wrong_code(source):
    """The tutorial shows whole programs of the tests; README.md shows lines from the head of a header."""
    wrong = []
    programs = "".join((source / "tests/programs" / name).read_text() for name in TUTORIAL)
    if code_of(source / "docs/tutorial.md") != programs:
        wrong.append(f"docs/tutorial.md does not show {', '.join(TUTORIAL)} of tests/programs")

    def squeezed(text):
        return [" ".join(line.split()) for line in text.split("\n")]

    header = (source / "schedules/step_schedule.h").read_text()
    shown = [line for line in squeezed(code_of(source / "README.md")) if line not in ("", "// ...")]
    known = squeezed("\n".join(re.findall(r"^//   (.*)$", header, re.M)))
    wrong += [f"README.md shows a line that schedules/step_schedule.h has not: {line}" for line in shown if line not in known]
    return wrong if len(shown) >= 5 else wrong + ["README.md shows no code"]


def prepare(source, build, work):
    for name in TUTORIAL:
        shutil.copy(source / "tests/programs" / name, work)
    (work / "my.txt").write_text("A text of one's own, which is long enough to learn from.\n" * 60)
    rows = [f"{k % 7},{k % 5},{k % 3},{(k % 7 + k % 5) / 12}" for k in range(200)]
    (work / "table.csv").write_text("\n".join(rows) + "\n")
    flowers = [f"{5 + k % 3 + k % 5 / 10},{3 + k % 4 / 10},{1 + 2 * (k % 3)},{0.2 + k % 3},{k % 3}" for k in range(150)]
    (work / "flowers.csv").write_text("sepal_length,sepal_width,petal_length,petal_width,kind\n" + "\n".join(flowers) + "\n")
    command = work / "cryolite"
    command.write_text(f'#!/bin/bash\nexec "{build}/bin/cryolite" "$@"\n')
    command.chmod(0o755)


def run_all(source, build, found):
    failures = 0
    with tempfile.TemporaryDirectory(prefix="cryolite docs ") as folder:
        work = pathlib.Path(folder)
        prepare(source, build, work)
        environment = {**os.environ, "CRYOLITE_ROOT": str(source), "XDG_CACHE_HOME": str(work / "cache"),
                       "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "BUILD": str(build)}
        for place, kind, text in found:
            if kind == "not run" or kind.startswith("needs ") and not shutil.which(kind.split()[1]):
                continue
            begin = time.monotonic()
            done = subprocess.run(["bash", "-c", text], cwd=work, env=environment, capture_output=True, text=True,
                                  errors="replace")
            print(f"{time.monotonic() - begin:6.1f} s  {place}: {text}", flush=True)
            if done.returncode:
                failures += 1
                print(f"FAILED with status {done.returncode}: {(done.stdout + done.stderr)[-800:]}")
    return failures


def main():
    source = pathlib.Path(sys.argv[1]).resolve()
    found, missing = lines_of(source)
    missing += wrong_version(source) + wrong_code(source)
    print("\n".join(missing))
    if missing or len(sys.argv) < 3:
        sys.exit(bool(missing))
    sys.exit(run_all(source, pathlib.Path(sys.argv[2]).resolve(), found) > 0)


if __name__ == "__main__":
    main()
