# What every script of this repository starts with: Debian's packages and the build. Sourced by tests/run,
# tests/bench/run, client/examples/quickstart and .ci/run, with `root` set to the top of the tree.
#
# Invariant: a function here either does its whole job or ends the script with one line that says why. Nothing is
# written outside build/ (but for packages, which are announced first), and nothing is done twice.
set -u -o pipefail

# Debian's python, meson and compiler come first: another python3 on PATH may be too old, or know no torch.
export PATH=/usr/bin:/bin:$PATH PYTHONDONTWRITEBYTECODE=1
unset TENSORD_SOCKET

# The one list of what the project needs. A program or a pkg-config module stands for each package elsewhere.
packages='gcc:cc libc6-dev:stdio.h meson:meson ninja-build:ninja pkg-config:pkg-config python3:python3
    protobuf-c-compiler:protoc-c libuv1-dev:libuv.pc libprotobuf-c-dev:libprotobuf-c.pc libopenblas-dev:openblas.pc
    libdnnl-dev:dnnl.h libcunit1-dev:cunit.pc uthash-dev:uthash.h zlib1g-dev:zlib.pc libmicrohttpd-dev:libmicrohttpd.pc
    python3-dev:python3.pc'

# And for the tests of the Python package and of models; without them they are skipped.
python_packages='libonnx-testdata:libonnx-testdata.installed python3-pytest:python3-pytest.installed python3-numpy:python3-numpy.installed
    python3-hypothesis:python3-hypothesis.installed mypy:mypy'

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

# Is it there (NAME.pc by pkg-config, NAME.h by the compiler, else a program)?
have() {
    case $1 in
    *.pc) pkg-config --exists "${1%.pc}" 2>/dev/null ;;
    *.installed) dpkg-query -W -f="\${Status}" "${1%.installed}" 2>/dev/null | grep -q "ok installed" ;;
    *.h) echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null ;;
    esac
}

# What apt-get says of its way on descriptor 3, a line for every tenth.
package_progress() {
    awk -F: '/^(dl|pm)status:/ { what = $1 == "dlstatus" ? "fetched" : "installed"; tenth = int($3 / 10)
            if (tenth && what tenth != last) { last = what tenth; print "  " what " " tenth "0%"; fflush() } }'
}

# Install what is missing of "package:proof ..." from Debian, or print it and stop.
need_packages() {
    local each lack='' sudo=''
    for each in $*; do
        have "${each#*:}" || lack="$lack ${each%%:*}"
    done
    lack=${lack# }
    [ -n "$lack" ] || return 0
    command -v apt-get >/dev/null && [ -e /etc/debian_version ] ||
        die "this is not Debian: please install what is called there: $lack"
    if [ "$(id -u)" != 0 ]; then
        sudo=$(command -v sudo) || die "missing packages, and no sudo: as root, apt-get install $lack"
    fi
    echo "installing from Debian's packages, which takes a minute or two: $lack"
    # Several at once wait for each other; a fresh system has no lists yet.
    $sudo apt-get -qq -o DPkg::Lock::Timeout=600 update >/dev/null || echo "apt-get update failed; going on with the lists there are"
    $sudo env DEBIAN_FRONTEND=noninteractive DEBCONF_NOWARNINGS=yes apt-get -qq -o DPkg::Lock::Timeout=600 -y --no-install-recommends \
        -o APT::Status-Fd=3 install $lack 3>&1 >/dev/null </dev/null | package_progress || die "apt-get could not install: $lack"
}

# On a terminal ninja shows its own line; elsewhere say every tenth part, and whatever the compiler says.
progress() {
    if [ -t 1 ]; then cat; else
        awk '/^\[[0-9]+\/[0-9]+\]/ { split(substr($1, 2), n, "[]/]"); t = int(10 * n[1] / n[2])
                if (t > tenth) { tenth = t; print "  " $1; fflush() } next }
            /^The Meson build system/ { quiet = 1 } /^Found ninja/ { quiet = 0; next } quiet && !/ERROR/ { next }
            /^ninja: (no work to do|Entering)/ { next } { print; fflush() }'
    fi
}

# build DIRECTORY [meson options]: configure once, build what has changed ($targets: of these only). Meson remembers what it did not find: when
# Python's headers came later, it must be told to look again.
build() {
    local dir=$1 log
    shift
    if [ ! -e "$root/$dir/build.ninja" ]; then
        echo "configuring $dir"
        # Debian's directory for libraries, where its pkg-config and linker look; meson knows it only with dpkg-dev.
        local triplet=$(cc -print-multiarch 2>/dev/null)
        log=$(cd "$root" && meson setup "$dir" ${triplet:+-Dlibdir=lib/$triplet} "$@" 2>&1) || {
            echo "$log" | tail -n 20 >&2
            die "meson could not configure $dir"
        }
    elif [ $# -gt 0 ]; then
        log=$(cd "$root" && meson configure "$dir" "$@" 2>&1) || die "meson refused the options $*: $log"
    fi
    if [ /var/lib/dpkg/info/python3-dev.list -nt "$root/$dir/looked-for-python" ] &&
        ! grep -q client/python/tensord/_C "$root/$dir/build.ninja"; then
        touch "$root/$dir/looked-for-python"
        echo "configuring $dir again, with Python"
        log=$(cd "$root" && meson configure --clearcache "$dir" 2>&1 && meson setup --reconfigure "$dir" 2>&1) ||
            die "meson could not configure $dir again: $log"
    fi
    echo "building $dir"
    ninja -C "$root/$dir" ${targets-} 2>&1 | progress || die "the build of $dir failed"
}

# What the sanitizers look at and what they do then, where the environment does not say.
sanitizer_options() {
    # What is freed stays in a quarantine, a small one: suites look at how much memory the daemon takes at most.
    export ASAN_OPTIONS=${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1:quarantine_size_mb=64}
    export UBSAN_OPTIONS=${UBSAN_OPTIONS:-halt_on_error=1:print_stacktrace=1}
    export TSAN_OPTIONS=${TSAN_OPTIONS:-second_deadlock_stack=1 suppressions=$root/.ci/thread.supp}
}
