#include "torch_version.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/maps.h"
#include "base/process.h"
#include "base/text.h"

namespace titan::tracer {
namespace {

// The directory that holds lib/libtorch_cpu.so. Not from the dynamic linker: it may be locked for ever.
bool find_torch(char (&directory)[PATH_MAX]) {
    constexpr const char* kEnding = "/lib/libtorch_cpu.so";
    char room[4300];
    MapsReader maps(getpid(), room, sizeof(room));
    for (Mapping mapping; maps.next(mapping);) {
        const size_t length = strlen(mapping.path);
        if (length > strlen(kEnding) && same_text(mapping.path + length - strlen(kEnding), kEnding) &&
            copy_text(directory, sizeof(directory), mapping.path)) {
            directory[length - strlen(kEnding)] = '\0';
            return true;
        }
    }
    return false;
}

// The quoted text of the first line that begins so: __version__ = '2.13.0+cu130', cuda: Optional[str] = '13.0'.
void read_quoted(const char* text, const char* line_start, char* out, size_t capacity_bytes) {
    out[0] = '\0';
    const char* const line = strstr(text, line_start);
    const size_t before = line == nullptr ? 0 : strcspn(line, "'\n");
    if (line != nullptr && line[before] == '\'') {
        const char* const begin = line + before + 1;
        TextWriter(out, capacity_bytes).text(begin, strcspn(begin, "'\n"));
    }
}

}  // namespace

void read_torch_version(char* out, size_t capacity_bytes) {
    char directory[PATH_MAX];
    char path[PATH_MAX + 16];
    char text[2048];
    char version[48];
    char cuda[24];
    TextWriter words(out, capacity_bytes);
    if (!find_torch(directory)) {
        return;
    }
    format_text(path, sizeof(path), "%s/version.py", directory);
    read_small_file(AT_FDCWD, path, text, sizeof(text));
    read_quoted(text, "__version__ = ", version, sizeof(version));
    read_quoted(text, "\ncuda", cuda, sizeof(cuda));
    words.text(version);
    if (cuda[0] != '\0') {
        words.format(", CUDA %s", cuda);
    }
}

}  // namespace titan::tracer
