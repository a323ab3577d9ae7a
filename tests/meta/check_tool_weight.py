"""titan-dump is for bad nodes: it must start where little works. It holds no code of the analyzer, and neither holds
nor loads libdw."""
import pathlib
import re
import subprocess

from metalib import Tree, run

FORBIDDEN_SYMBOLS = re.compile(r"\b(dwarf_|dwfl_|titan::analyzer::)\w*")
FORBIDDEN_LIBRARIES = re.compile(r"\[(lib(dw|elf|archive|python|stdc\+\+fs)[^\]]*)\]")


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def check(tree):
    program = tree.build / "tools" / "titan-dump"
    if not program.exists():
        return [f"{program} is not built: what would this check read?"]
    symbols = sorted({match.group(0)
                      for match in FORBIDDEN_SYMBOLS.finditer(output_of(tree.options.nm, "-C", str(program)))})
    loaded = FORBIDDEN_LIBRARIES.findall(output_of(tree.options.readelf, "-dW", str(program)))
    return ([f"titan-dump holds {symbol}" for symbol in symbols[:10]] +
            [f"titan-dump loads {library[0]}" for library in loaded])


def compiled(source, *arguments):
    def make(directory, options):
        place = pathlib.Path(directory) / "tools"
        place.mkdir()
        (place / "a.cpp").write_text(source)
        subprocess.run(["g++", "-std=c++20", str(place / "a.cpp"), "-o", str(place / "titan-dump"), *arguments],
                       check=True)
        return Tree(directory, build=directory)
    return make


ANALYZER = ("namespace titan::analyzer { int diagnose() { return 0; } }\n"
            "int main() { return titan::analyzer::diagnose(); }\n")
BAD = {
    "the analyzer": ("holds titan::analyzer::diagnose", compiled(ANALYZER)),
    "libdw inside": ("holds dwarf_begin",
                     compiled('extern "C" int dwarf_begin() { return 0; }\nint main() { return dwarf_begin(); }\n')),
    "libdw loaded": ("loads libdw", compiled("int main() {}\n", "-Wl,--no-as-needed", "-l:libdw.so.1")),
    "nothing built": ("is not built", lambda directory, options: Tree(directory, build=directory)),
}

if __name__ == "__main__":
    run(check, BAD, {"plain": compiled("int main() {}\n")})
