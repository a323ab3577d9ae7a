"""libtitantrace.so is a guest in strangers' processes: it needs libc alone, and shows only the names it stands in front
of (the rows of interpose/tables/*.def), titan_* and ncclProfiler_*."""
import pathlib
import re
import shutil
import subprocess

from metalib import Tree, blank_comments_and_strings, run

NEEDED_ALLOWED = re.compile(r"^(libc\.so|libm\.so|ld-linux[-\w]*\.so|lib(dl|pthread|rt)\.so)")
OWN = re.compile(r"^(titan_|ncclProfiler_)")
# Intercepted by hand, because no row can say "does not return": a process that leaves without atexit must still be
# seen. And the names under which NVTX looks for a tool, and AddressSanitizer for options. dlsym and dlvsym jump into
# the real ones, which look at the return address: assembler. dlclose keeps the libraries loaded whose functions are
# remembered.
BY_HAND = {"_exit", "_Exit", "quick_exit", "InitializeInjectionNvtx2", "__asan_default_options", "dlsym", "dlvsym",
           "dlclose"}


def needed(readelf, library):
    output = subprocess.run([readelf, "-dW", str(library)], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.+)\]", output)


def exported(nm, library):
    output = subprocess.run([nm, "-D", "--defined-only", "--format=posix", str(library)],
                            capture_output=True, text=True, check=True).stdout
    return {line.split()[0].split("@")[0] for line in output.splitlines() if line.strip()}


def rows(tree):
    """Every function that a table names: the words of the rows, because rows differ in shape from table to table."""
    names = set()
    for path in tree.files("interpose", suffixes={".def"}):
        text = blank_comments_and_strings(tree.text(path))
        names |= set(re.findall(r"\b[A-Za-z_]\w+\b", text))
        # Twins for a default stream per thread: one row, two names.
        names |= {name + twin for name in re.findall(r"^\w*PT[SD][SZ]\(\w+, (\w+)", text, re.M)
                  for twin in ("_ptsz", "_ptds")}
    return names


def row_symbols(tree):
    """The functions of nccl.def, one per row: each must be exported, or callers would get past us."""
    path = tree.root / "interpose" / "tables" / "nccl.def"
    if not path.exists():
        return set()
    text = blank_comments_and_strings(tree.text(path))
    return set(re.findall(r"^\s*[A-Z]\w*\(\s*[^()]*?\b(nccl[A-Z]\w*)\s*,\s*\(", text, re.M))


def check(tree):
    library = pathlib.Path(tree.options.library or "")
    if not library.is_file():
        return ["libtitantrace.so was not built: ninja -C build interpose/libtitantrace.so"]
    if "libasan" in " ".join(needed(tree.options.readelf, library)) or "libtsan" in " ".join(
            needed(tree.options.readelf, library)):
        print("sanitized build: it needs the sanitizer's libraries, nothing to check")
        return []
    problems = [f"NEEDED {name}: a guest needs libc alone" for name in needed(tree.options.readelf, library)
                if not NEEDED_ALLOWED.match(name)]
    names, intercepted = exported(tree.options.nm, library), rows(tree)
    problems += [f"exports {name}, which no table names" for name in sorted(names)
                 if not OWN.match(name) and name not in intercepted | BY_HAND]
    problems += [f"does not export {name}, although nccl.def has it" for name in sorted(row_symbols(tree) - names)]
    if not any(OWN.match(name) for name in names):
        problems.append("exports no titan_* function: the markers are missing")
    return problems


def library_sample(source, *flags, table="X(1, ncclResult_t, ncclAllReduce, (int a), (a))\n"):
    def make(directory, options):
        place = pathlib.Path(directory)
        (place / "interpose" / "tables").mkdir(parents=True)
        (place / "interpose" / "tables" / "nccl.def").write_text(table)
        (place / "a.cpp").write_text(source)
        subprocess.run(["g++", "-shared", "-fPIC", "-o", str(place / "lib.so"), str(place / "a.cpp"), *flags],
                       check=True)
        tree = Tree(directory)
        tree.options.library = str(place / "lib.so")
        return tree
    return make


GUEST = "int titan_x, ncclAllReduce; "
BAD = {
    "a stray name": ("exports helper", library_sample(GUEST + "int helper;")),
    "a C++ name": ("exports _Z4leakv", library_sample(GUEST + "void leak() {}")),
    "needs libstdc++": ("NEEDED libstdc++", library_sample(GUEST, "-Wl,--no-as-needed", "-lstdc++")),
    "a row without its wrapper": ("does not export ncclAllReduce", library_sample("int titan_x;")),
    "no markers": ("no titan_*", library_sample("int ncclAllReduce;")),
}
# gcc's driver links g++ libraries with libstdc++ and libgcc_s unless told otherwise.
GOOD = {"as it should be": library_sample(GUEST + "int ncclProfiler_v4;", "-nodefaultlibs", "-lc")}

if __name__ == "__main__":
    if not shutil.which("readelf"):
        print("skipped: no readelf")
        raise SystemExit(77)
    run(check, BAD, GOOD)
