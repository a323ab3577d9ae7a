"""Programs of another libc inherit the preload from the glibc program that starts them, and that libc's loader ends a
program whose preload asks for a name that it lacks. So libtitantrace.so asks for nothing that musl does not have, but
weakly.

musl_names.txt has the names of musl's libc.so, for machines without one; --write makes it of the one that is here."""
import glob
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

from metalib import Tree, run

LIST = pathlib.Path(__file__).with_name("musl_names.txt")
# musl's loader takes these names for itself (dynlink.c: load_library), whatever follows ".so".
ITSELF = re.compile(r"lib(c|pthread|rt|m|dl|util|xnet)\.so")


def musl_here():
    return next(iter(glob.glob("/usr/lib/*-linux-musl/libc.so")), None)


def names(nm, library, *options):
    output = subprocess.run([nm, "-D", "--format=posix", *options, str(library)], capture_output=True, text=True,
                            check=True).stdout
    return {(fields[0].split("@")[0], fields[1]) for fields in map(str.split, output.splitlines()) if fields}


def names_of_musl(nm):
    if musl_here():
        return {name for name, _ in names(nm, musl_here(), "--defined-only")}
    return set(LIST.read_text().split())


def check(tree):
    library = pathlib.Path(tree.options.library or "")
    if not library.is_file():
        return ["libtitantrace.so was not built: ninja -C build interpose/libtitantrace.so"]
    dynamic = subprocess.run([tree.options.readelf, "-dW", str(library)], capture_output=True, text=True,
                             check=True).stdout
    needed = re.findall(r"\(NEEDED\).*\[(.+)\]", dynamic)
    if re.search("lib[at]san", dynamic):
        print("sanitized build: it runs where it was built, nothing to check")
        return []
    there = names_of_musl(tree.options.nm)
    problems = [f"NEEDED {name}: musl has no such library" for name in needed if not ITSELF.match(name)]
    return problems + [f"needs {name}, which musl lacks: see interpose/start/glibc_floor.cpp"
                       for name, kind in sorted(names(tree.options.nm, library, "--undefined-only"))
                       if kind == "U" and name not in there]


def sample(source):
    def make(directory, options):
        place = pathlib.Path(directory)
        (place / "a.c").write_text(source)
        subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,--as-needed", "-o", str(place / "lib.so"),
                        str(place / "a.c")], check=True)
        tree = Tree(directory)
        tree.options.library = str(place / "lib.so")
        return tree
    return make


BAD = {
    "a function of glibc": ("needs on_exit, which musl lacks", sample("""#include <stdlib.h>
int f(void (*g)(int, void *)) { return on_exit(g, 0); }
""")),
    "glibc's loader": ("NEEDED ld-linux", sample("""#include <link.h>
void *f(void) { return _r_debug.r_map; }
""")),
}
GOOD = {"what every libc has, and a weak name": sample("""#include <unistd.h>
#include <link.h>
#pragma weak _r_debug
int f(void) { return &_r_debug ? getpid() : 0; }
""")}

if __name__ == "__main__":
    if "--write" in sys.argv:
        LIST.write_text(textwrap.fill(" ".join(sorted(names_of_musl("nm"))), 120, break_long_words=False,
                                      break_on_hyphens=False) + "\n")
        raise SystemExit(0)
    if not shutil.which("readelf"):
        print("skipped: no readelf")
        raise SystemExit(77)
    run(check, BAD, GOOD)
