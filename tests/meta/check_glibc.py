"""The loader ends a program whose preload asks for a newer libc than there is. One build is to run in the containers
that people have, so libtitantrace.so asks for no version of glibc's symbols that is newer than 2.17 (2012)."""
import pathlib
import re
import shutil
import subprocess

from metalib import Tree, run

FLOOR = (2, 17)


def newer(readelf, library):
    """[(symbol, version)] that the library asks for."""
    output = subprocess.run([readelf, "--dyn-syms", "-W", str(library)], capture_output=True, text=True,
                            check=True).stdout
    asked = re.findall(r"\bUND (\w+)@GLIBC_([\d.]+)", output)
    return [(name, version) for name, version in asked if tuple(map(int, version.split("."))) > FLOOR]


def check(tree):
    library = pathlib.Path(tree.options.library or "")
    if not library.is_file():
        return ["libtitantrace.so was not built: ninja -C build interpose/libtitantrace.so"]
    needed = subprocess.run([tree.options.readelf, "-dW", str(library)], capture_output=True, text=True,
                            check=True).stdout
    if re.search("lib[at]san", needed):
        print("sanitized build: it runs where it was built, nothing to check")
        return []
    return [f"needs {name} of glibc {version}: see interpose/start/glibc_floor.cpp"
            for name, version in newer(tree.options.readelf, library)]


def sample(source):
    def make(directory, options):
        place = pathlib.Path(directory)
        (place / "a.c").write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(place / "lib.so"), str(place / "a.c")], check=True)
        tree = Tree(directory)
        tree.options.library = str(place / "lib.so")
        return tree
    return make


BAD = {"a newer function": ("needs getrandom of glibc 2.25", sample("""#include <sys/random.h>
long f(void *p) { return getrandom(p, 1, 0); }
"""))}
GOOD = {"an old one": sample("""#include <unistd.h>
int f(void) { return getpid(); }
""")}

if __name__ == "__main__":
    if not shutil.which("readelf"):
        print("skipped: no readelf")
        raise SystemExit(77)
    run(check, BAD, GOOD)
