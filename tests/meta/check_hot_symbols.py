"""No object of the guest may even refer to an allocator, a lock, a stream of libc, or the guard of a function-local
static: most run on the program's hot path, the rest in its signal handlers or where another thread holds the
allocator's lock. Read from the undefined symbols of the built objects."""
import pathlib
import re
import subprocess

from metalib import Tree, run

FORBIDDEN = {
    "malloc": "allocates", "calloc": "allocates", "realloc": "allocates", "free": "allocates",
    "_Znwm": "operator new", "_Znam": "operator new[]", "_ZdlPvm": "operator delete", "_ZdlPv": "operator delete",
    "__cxa_guard_acquire": "a function-local static with a guard", "__cxa_throw": "throws",
    "__cxa_atexit": "a global with a destructor",
    "pthread_mutex_lock": "takes a lock", "pthread_rwlock_rdlock": "takes a lock",
    "pthread_rwlock_wrlock": "takes a lock",
    "printf": "prints", "fprintf": "prints", "fopen": "opens a file",
}
LAYERS = re.compile(r"(^|/)(base|interpose|tracer)/")
OUTSIDE = re.compile(r"outside|(^|/)base/host/")  # for programs, not in the guest
# What an object may refer to all the same.
ALLOWED = {
    "plugin_nvtx.cpp.o": {"calloc"},  # a program's new domain or string, which it keeps: where NVTX itself allocates
}


def undefined(nm, path):
    output = subprocess.run([nm, "-u", "--format=posix", str(path)], capture_output=True, text=True, check=True).stdout
    return {line.split()[0].split("@")[0] for line in output.splitlines() if line.strip()}


def check(tree):
    # Sanitizers and coverage put their own calls into every object.
    options_file = tree.build / "meson-info" / "intro-buildoptions.json"
    if options_file.exists() and re.search(r'"name": "b_sanitize", "value": "(?!none)', options_file.read_text()):
        print("sanitized build: its objects carry the sanitizer's calls, nothing to check")
        return []
    objects = [path for path in tree.build.rglob("*.o")
               if LAYERS.search(str(path.relative_to(tree.build)))
               and not OUTSIDE.search(str(path.relative_to(tree.build)))
               and "tests" not in path.relative_to(tree.build).parts]
    if not objects:
        return ["no object of the guest was found in the build directory: what would this check read?"]
    return [f"{path.name}: {symbol} ({FORBIDDEN[symbol]})"
            for path in sorted(objects)
            for symbol in sorted((undefined(tree.options.nm, path) & set(FORBIDDEN)) - ALLOWED.get(path.name, set()))]


def compiled(source, layer="interpose"):
    """A sample that must be compiled first."""
    def make(directory, options):
        place = pathlib.Path(directory) / layer
        place.mkdir()
        (place / "bad.cpp").write_text(source)
        subprocess.run(["g++", "-std=c++20", "-O1", "-c", str(place / "bad.cpp"), "-o",
                        str(place / "nccl_wrappers.cpp.o")],
                       check=True)
        return Tree(directory, build=directory)
    return make


BAD = {
    "new": ("_Znwm", compiled("int* f() { return new int(3); }\n")),
    "new on the ground floor": ("_Znwm", compiled("int* f() { return new int(3); }\n", "base")),
    "local static":
    ("__cxa_guard_acquire", compiled("struct S { S(); int v; }; int f() { static S s; return s.v; }\n")),
    "mutex": ("pthread_mutex_lock",
              compiled("#include <pthread.h>\nextern pthread_mutex_t m; void f() { pthread_mutex_lock(&m); }\n")),
    "nothing built": ("no object", lambda directory, options: Tree(directory, build=directory)),
}

if __name__ == "__main__":
    run(check, BAD, {"plain": compiled("int g(int); int f(int x) { return g(x); }\n")})
