"""Brings newer CPythons than this machine has: Debian's packages of later suites, unpacked side by side, nothing
installed.

    eval "$(get_pythons.py DIRECTORY)"     sets TITAN_PYTHONS for test_stacks.py and test_layouts.py

Needs apt and its Debian mirror; keeps apt's own lists and state untouched. Each CPython runs with its suite's C
library.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys

SUITES = {"trixie": ("3.13",), "sid": ("3.14", "3.15")}
PARTS = ("python{}-minimal", "libpython{}-minimal", "libpython{}-stdlib", "libpython{}-dev")
LIBRARIES = ("libc6", "libexpat1", "zlib1g", "libffi8", "libssl3t64")
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def mirror():
    """Where this machine's apt finds Debian."""
    for path in [*pathlib.Path("/etc/apt/sources.list.d").glob("*.sources"), pathlib.Path("/etc/apt/sources.list")]:
        found = re.search(r"^(?:URIs: *|deb (?:\[.*?\] )?)(\S+/debian)/?\s", path.read_text() if path.exists() else "",
                          re.M)
        if found:
            return found.group(1)
    sys.exit("get_pythons: apt names no Debian mirror here")


def apt(state, *arguments, cwd=None):
    done = subprocess.run(["apt-get", "-q", *arguments], env={**os.environ, "APT_CONFIG": str(state / "apt.conf")},
                          cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        print(f"get_pythons: apt-get {' '.join(arguments)}: {done.stderr.strip()}", file=sys.stderr)
    return done.returncode == 0


def prepare(directory, suite):
    """An apt of its own for one suite."""
    state = directory / f"apt-{suite}"
    for part in ("lists/partial", "cache/archives/partial"):
        (state / part).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    (state / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
    (state / "apt.conf").write_text(f'Dir::Etc::sourcelist "{state}/sources.list";\nDir::Etc::sourceparts '
                                    f'"/dev/null";\n'
                                    f'Dir::State::lists "{state}/lists";\nDir::Cache "{state}/cache";\n'
                                    f'Dir::State::status "{state}/status";\nAPT::Sandbox::User "root";\n')
    return state if apt(state, "update") else None


def unpack(directory, suite, versions):
    state, root = prepare(directory, suite), directory / suite
    if state is None:
        return
    for version in versions:
        apt(state, "download", *(part.format(version) for part in PARTS), cwd=state)
    apt(state, "download", *LIBRARIES, cwd=state)
    for package in sorted(state.glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(root)], check=True)
    libraries = root / "usr/lib" / f"{os.uname().machine}-linux-gnu"
    for version in versions:
        program = root / "usr/bin" / f"python{version}"
        if program.exists():
            yield shlex.join([*map(str, libraries.glob("ld-linux-*.so.*")), "--library-path", str(libraries),
                              str(program)])


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    place = pathlib.Path(sys.argv[1]).resolve()
    commands = [command for suite, versions in SUITES.items() for command in unpack(place, suite, versions)]
    print("export TITAN_PYTHONS=" + shlex.quote(";".join(commands)))
