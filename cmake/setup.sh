# Sets up a checkout; sourced by ./cryolite, which defines root, build, up_to_date and lacks_mpi. Every phase says what
# it does on stderr, in one line with its time; one with nothing to do is silent. Stamps are written last, so that what
# was interrupted is done again at the next start.

venv=$root/.venv
log=$build/setup.log
trap "exit 130" INT TERM

say() { echo "cryolite: $*" >&2; }
die() { say "$*"; exit 1; }

# Prints ninja's progress at each tenth of the way, while the script lives. It waits in a read that gets no input.
watch_ninja() {
    local said=0 tenths
    exec 8<> <(:)
    until read -r -t "${CRYOLITE_WATCH_SECONDS:-30}" -u 8 || ! kill -0 $$ 2> /dev/null; do
        [[ $(tail -c 2000 "$log" | grep -oE '^\[[0-9]+/[0-9]+\]' | tail -n 1) =~ ([0-9]+)/([0-9]+) ]] || continue
        tenths=$((10 * BASH_REMATCH[1] / BASH_REMATCH[2]))
        if [ $tenths -gt $said ]; then printf '[%s] ' "${BASH_REMATCH[0]}" >&2; fi
        said=$tenths
    done
}

# Runs a phase with its output in the log: phase "what it does" "what helps when it fails" COMMAND...
phase() {
    local what=$1 help=$2 begin=$SECONDS t0=${EPOCHREALTIME/,/.} watcher status=0
    shift 2
    printf 'cryolite: %s ... ' "$what" >&2
    watch_ninja < /dev/null > /dev/null 9>&- &
    watcher=$!
    "$@" > "$log" 2>&1 < /dev/null 9>&- || status=$?
    kill "$watcher"
    wait "$watcher" 2> /dev/null
    if [ "$status" = 0 ]; then
        LC_ALL=C awk -v a="$t0" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.1f s\n", b - a }' >&2
    else
        printf 'failed after %s s\n' $((SECONDS - begin)) >&2
        # The first error of a compiler says most; of anything else the last lines do.
        { grep -m 8 -E '(error|Error|ERROR)[: ]|FAILED:|^E: ' "$log" || tail -n 15 "$log"; } | sed 's/^/    /' >&2
        say "$help"
        die "all of its output: $log"
    fi
}

known_commands() { # a line each: its name, a tab, what it does
    sed -n 's/^    {"\([a-z]*\)", "\(.*\)", run_[a-z]*},$/\1\t\2/p' "$root/apps/cryolite/cli/dispatch.cpp"
}

# " (did you mean X?)": the name with the fewest edits from a word, two at most, as the built command says it.
did_you_mean() { # did_you_mean WORD NAMES, a line each
    WORD=$1 awk '
        function edits(a, b,    i, j, d, e) {
            for (i = 0; i <= length(a); i++)
                for (j = 0; j <= length(b); j++) {
                    e = i * j ? d[i - 1, j - 1] + (substr(a, i, 1) != substr(b, j, 1)) : i + j
                    if (i && j && d[i - 1, j] + 1 < e) e = d[i - 1, j] + 1
                    if (i && j && d[i, j - 1] + 1 < e) e = d[i, j - 1] + 1
                    d[i, j] = e
                }
            return d[length(a), length(b)]
        }
        BEGIN { nearest = 3; word = substr(ENVIRON["WORD"], 1, 40) }
        (n = edits(word, $0)) < nearest { nearest = n; found = $0 }
        END { if (found) printf " (did you mean %s?)", found }' <<< "$2"
}

refuse_before_setup() { # refuse_before_setup WORDS: refuses unknown commands and apps before anything is built
    local names apps
    names=$(known_commands | cut -f 1)
    case ${1-} in
        "") echo "cryolite: a command is required, one of ${names//$'\n'/, }; see cryolite --help" >&2 ;;
        -*) return ;; # the command refuses its flags
        *)
            if grep -qxF -- "$1" <<< "$names"; then
                case $1 in train | bench | tune | explain | check) ;; *) return ;; esac
                case ${2-} in "" | *[!a-z0-9_]*) return ;; esac # no app's name: a flag, or a path
                apps=$(cd "$root/generators/programs" && ls ./*.cpp | sed 's|^\./||; s|\.cpp$||' | grep -vx fuzz)
                if grep -qxF -- "$2" <<< "$apps"; then return; fi
                echo "cryolite: there is no app \"$2\"$(did_you_mean "$2" "$apps"): expected ${apps//$'\n'/, }, or the path of a .cpp of your own" >&2
                exit 2
            fi
            echo "cryolite: there is no command \"$1\"$(did_you_mean "$1" "$names"): expected ${names//$'\n'/, }" >&2 ;;
    esac
    exit 2
}

before_setup() { # --help and --version of a checkout that is not built yet
    if [ "$1" = --version ]; then
        sed -n 's/^project(cryolite VERSION \([0-9.]*\).*/cryolite \1/p' "$root/CMakeLists.txt"
    else
        echo "Cryolite: a Halide-based compiler and runtime for training neural networks."
        echo "Usage: cryolite COMMAND [flags]"
        echo
        known_commands | sed 's/^/  /'
        echo
        echo "This checkout is not built yet: any command installs what is missing and builds it, in some minutes."
        echo "Then 'cryolite COMMAND --help' lists the flags."
    fi
    exit 0
}

# --- System packages ---------------------------------------------------------------------------------

header_packages="CLI/CLI.hpp=libcli11-dev nlohmann/json.hpp=nlohmann-json3-dev
    toml++/toml.h=libtomlplusplus-dev fmt/format.h=libfmt-dev openssl/evp.h=libssl-dev zlib.h=zlib1g-dev
    sqlite3.h=libsqlite3-dev pcre2.h=libpcre2-dev utf8proc.h=libutf8proc-dev doctest/doctest.h=doctest-dev"

compiler_works() {
    printf '#include <version>\n#include <omp.h>\n#if __cplusplus < 202002L || !defined(__cpp_lib_span)\n#error\n#endif\n' |
        "${CXX:-c++}" -std=c++20 -fopenmp -x c++ -fsyntax-only - 2> /dev/null
}

# Asks for a header without including it: pcre2.h cannot be included without a macro of its user.
have_header() {
    if compiler_works; then
        printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" | "${CXX:-c++}" -std=c++20 -x c++ -E - > /dev/null 2>&1
    else
        [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ]
    fi
}

find_python() { # a Python 3 that can make environments
    local p
    for p in python3 /usr/bin/python3; do
        if "$p" -c 'import venv, ensurepip' 2> /dev/null; then echo "$p"; return; fi
    done
}

missing_packages() {
    local pair
    compiler_works || printf 'g++ '
    command -v ld.lld > /dev/null || printf 'lld '
    [ -n "$(find_python)" ] || printf 'python3 python3-venv '
    for pair in $header_packages; do
        if ! have_header "${pair%%=*}"; then printf '%s ' "${pair#*=}"; fi
    done
}

# Packages that are used where they are installed: oneDNN for a dialect, and MPI where there is mpirun. The tests use
# MPI, too, and clang-format, OpenCL on the CPU, Oclgrind, llvm-mca, and a C compiler and an emulator for other
# processors.
optional_packages() { # optional_packages tests|command
    if [ "$1" = tests ] || [ -n "${OMPI_COMM_WORLD_SIZE-}" ] || command -v mpirun > /dev/null; then
        command -v mpicxx > /dev/null && command -v mpirun > /dev/null || printf 'libopenmpi-dev openmpi-bin '
    fi
    have_header dnnl.hpp || printf 'libdnnl-dev '
    if [ "$1" = tests ]; then
        [ -e /usr/aarch64-linux-gnu/include/stdio.h ] && command -v aarch64-linux-gnu-gcc > /dev/null ||
            printf 'gcc-aarch64-linux-gnu libc6-dev-arm64-cross '
        command -v qemu-aarch64 > /dev/null && command -v qemu-x86_64 > /dev/null || printf 'qemu-user '
        command -v clang-format-14 > /dev/null || printf 'clang-format-14 '
        compgen -G '/etc/OpenCL/vendors/*.icd' > /dev/null || printf 'ocl-icd-libopencl1 pocl-opencl-icd '
        command -v oclgrind > /dev/null || printf 'oclgrind '
        if ! compgen -c llvm-mca- | grep -qE '^llvm-mca-(19|[2-9][0-9])$' && apt-cache show llvm-19 > /dev/null 2>&1; then
            printf 'llvm-19 '
        fi
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

apt_install() {
    local try
    # Another apt may be at work: its lists have a lock that apt does not wait for.
    for try in 1 2 3; do
        as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 update && break
        sleep $((5 * try))
    done
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 install --no-install-recommends "$@"
}

system_packages() { # system_packages tests|command
    local missing by_hand needed
    missing=$(missing_packages)
    missing=${missing% }
    [ -n "$missing" ] || return 0
    by_hand="install them as root: apt-get update && apt-get install $missing (or what your system calls them)"
    needed=${missing//doctest-dev/}
    if command -v apt-get > /dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; }; then
        phase "installing system packages ($missing)" "needed: $missing. Without network, $by_hand" apt_install $missing
        missing=$(missing_packages)
        [ -z "$missing" ] || die "these packages are installed but do not work here: $missing"
    elif [ "$1" = tests ] || [ -n "${needed// /}" ]; then
        die "missing system packages: $missing; there is no root, sudo or apt here to install them: $by_hand"
    fi
}

# Only what needs these packages does without: no failure here stops anything.
install_optional() { # install_optional tests|command
    local missing
    missing=$(optional_packages "$1")
    [ -z "$missing" ] || install_packages "${missing% }"
}
install_packages() { # install_packages NAMES
    local missing=$1
    command -v apt-get > /dev/null && { [ "$(id -u)" = 0 ] || sudo -n true 2> /dev/null; } || return 0
    printf 'cryolite: installing what is optional (%s) ... ' "$missing" >&2
    if apt_install $missing > "$log" 2>&1 < /dev/null 9>&-; then
        echo done >&2
    else
        echo "not possible: what needs it says so, and its tests are skipped; see $log" >&2
    fi
}

# MPI for a build that found none: it is installed where Open MPI's mpirun started this, if possible, and the build is
# configured again. A failed attempt is noted, and repeated only once there is another mpicxx.
get_mpi() {
    local noted="$root $(command -v mpicxx)"
    [ "$(cat "$build/.no-mpi" 2> /dev/null)" != "$noted" ] || return 0
    if [ -n "${OMPI_COMM_WORLD_SIZE-}" ] && ! command -v mpicxx > /dev/null; then install_optional command; fi
    echo "$root $(command -v mpicxx)" > "$build/.no-mpi"
    if command -v mpicxx > /dev/null; then rm -f "$build/.configured"; fi
}

# --- The private Python environment -------------------------------------------------------------------

python_environment() {
    local stamp=$venv/.ready wheels
    wheels=$(grep -v '^#' "$root/cmake/requirements.txt" | tr '\n' ' ')
    [ "$(cat "$stamp" 2> /dev/null)" = "$root $wheels" ] && return
    # Made anew: one that was interrupted, or moved with its checkout, cannot be told from a good one.
    rm -rf "$venv" "$build/.configured"
    phase "making a private Python environment (${wheels% })" \
        "needed: ${wheels}as wheels for $("$(find_python)" -V 2>&1) on $(uname -m). pip takes them from its usual index; without network, give it a folder of wheels: PIP_NO_INDEX=1 PIP_FIND_LINKS=DIR ./cryolite" \
        install_wheels
    echo "$root $wheels" > "$stamp"
}

install_wheels() {
    "$(find_python)" -m venv "$venv" &&
        "$venv/bin/python" -m pip install --no-input --disable-pip-version-check --retries 2 --only-binary :all: \
            --no-deps -r "$root/cmake/requirements.txt"
}

# --- The build ----------------------------------------------------------------------------------------

configure() {
    if [ -e "$build/.configured" ] && [ -e "$build/build.ninja" ]; then return; fi
    # A checkout that was moved or copied: CMake refuses a cache of another folder.
    if [ -e "$build/CMakeCache.txt" ] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$build/CMakeCache.txt"; then
        find "$build" -mindepth 1 -maxdepth 1 ! -name .lock ! -name setup.log -exec rm -rf {} +
    fi
    phase "configuring" "CMake's message is above" \
        "$venv/bin/cmake" -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_MAKE_PROGRAM="$venv/bin/ninja" --fresh
    : > "$build/.configured"
}

# One process for each core, and 1.2 GB of memory for each: Halide.h is large.
build_jobs() {
    local cores memory
    cores=$(nproc)
    memory=$(awk '/^MemAvailable/ { print int($2 / 1200000) }' /proc/meminfo)
    if [ "$memory" -lt "$cores" ]; then cores=$memory; fi
    echo $((cores < 1 ? 1 : cores))
}

compile() { # compile TARGETS
    local jobs help="the compiler's message is above"
    jobs=$(build_jobs)
    # Someone at a terminal sees ninja count; the time comes after.
    if [ -t 2 ] && [ "${CI-}" != true ]; then
        local t0=$SECONDS
        say "building ($jobs at a time)"
        "$venv/bin/ninja" -C "$build" -j "$jobs" --quiet $1 >&2 < /dev/null 9>&- || die "the build failed: $help"
        say "built in $((SECONDS - t0)) s"
    else
        phase "building ($jobs at a time)" "$help" "$venv/bin/ninja" -C "$build" -j "$jobs" $1
    fi
}

set_up() { # set_up tests|command|TARGETS
    local packages=command target=$1 stamp=$build/.ready sources=("${command_sources[@]}")
    if [ "$1" = tests ]; then
        packages=tests target=all stamp=$build/.ready-tests
        sources+=(tests)
    elif [ "$1" != command ]; then
        stamp=$build/.ready-${1// /-}
    fi
    mkdir -p "$build" 2> /dev/null || die "cannot write to the checkout $root: copy it to a folder of your own"
    [ -w "$build" ] || die "cannot write to $build: copy the checkout to a folder of your own"
    # One set-up at a time; the lock ends with the process that holds it.
    exec 9> "$build/.lock"
    if ! flock -n 9; then
        say "another ./cryolite is setting up this checkout: waiting"
        flock 9
    fi
    if lacks_mpi; then get_mpi; fi
    if ! { [ -x "$build/bin/cryolite" ] && [ -e "$build/.configured" ] && up_to_date "$stamp" "${sources[@]}"; }; then
        # The time of the stamp is that of this moment: a source edited during the build is newer.
        echo "$root" > "$stamp.new"
        if [ "$(cat "$build/.packages-$packages" 2> /dev/null)" != "$root" ]; then
            system_packages "$packages"
            install_optional "$packages"
            echo "$root" > "$build/.packages-$packages"
        fi
        python_environment
        configure
        compile "$target"
        if ! lacks_mpi; then rm -f "$build/.no-mpi"; fi
        mv "$stamp.new" "$stamp"
        # All that the command needs is in `all`.
        if [ "$1" = tests ]; then cp -p "$stamp" "$build/.ready"; fi
    fi
    exec 9>&-
}

run_tests() { # run_tests PATTERN [long]: without either those that are quick
    local jobs long=${2:+-C $2}
    if [ -z "$1$long" ]; then long="-LE ^slow\$"; fi
    jobs=$(nproc)
    if [ -n "${1-}" ] && "$venv/bin/ctest" --test-dir "$build" $long -N -R "$1" | grep -q "Total Tests: 0$"; then
        say "no test's name has the pattern '$1'; cryolite test runs all, and names them"
        exit 2
    fi
    set -- --test-dir "$build" --output-on-failure --no-tests=error -j "$jobs" $long ${1:+-R "$1"}
    "$venv/bin/ctest" "$@" || exit 1
    exit 0
}
