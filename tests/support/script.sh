# What scripts that test the command share; sourced with the source and the build folder as arguments. They run in a
# folder of their own, which is removed, and end with `exit $((failures > 0))`.
set -u
: "${2:?usage: $0 SOURCE BUILD}"
CRYOLITE_ROOT=$(realpath "$1") && command=$(realpath "$2")/bin/cryolite || exit 2
export CRYOLITE_ROOT
work=$(mktemp -d "${TMPDIR:-/tmp}/cryolite test XXXXXX")
trap 'rm -rf -- "$work"' EXIT
cd "$work" || exit 1
failures=0
fail() { echo "FAILED: $*"; failures=$((failures + 1)); }
# The seconds of the median step of a bench. Usage: median_step SECONDS ARGUMENTS...
median_step() { timeout "$1" "$command" bench "${@:2}" --json 2> err | sed -n 's/.*"median_s":\([0-9.e-]*\).*/\1/p'; }
# What is missing here ends the test, as one that ctest counts as skipped; under CI, which installs it, as one that failed.
skip_unless_ci() { # skip_unless_ci WHAT IS MISSING
    if [ -n "${CI-}" ]; then echo "FAILED: under CI this test has to run: $*"; exit 1; fi
    echo "skipped: $*"
    exit 0
}
