#include "run/installed.h"

#include <glob.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "host/mapped.h"

namespace titan::tools {
namespace {

namespace files = std::filesystem;

// Relative to the parent of the program's directory. A wheel's library lies inside its Python package.
constexpr const char* kLibraryPlaces[] = {"lib/python3*/*-packages/titantrace",
                                          "lib64/python3*/*-packages/titantrace",
                                          "titantrace",
                                          "lib",
                                          "lib64",
                                          "lib/*-linux-gnu",
                                          "interpose"};
constexpr const char* kAnalyzerPlaces[] = {"bin", "analyzer"};

template <size_t kPlaces>
std::string find_beside(const char* const (&places)[kPlaces], const char* name) {
    std::error_code failed;
    const files::path above = files::read_symlink("/proc/self/exe", failed).parent_path().parent_path();
    for (const char* place : places) {
        glob_t found{};
        const std::string pattern = (above / place / name).string();
        const bool any = ::glob(pattern.c_str(), 0, nullptr, &found) == 0 && found.gl_pathc > 0;
        std::string path = any ? found.gl_pathv[found.gl_pathc - 1] : "";
        ::globfree(&found);
        if (any) {
            return path;
        }
    }
    return "";
}

}  // namespace

std::string library_path() { return find_beside(kLibraryPlaces, "libtitantrace.so"); }
std::string analyzer_path() { return find_beside(kAnalyzerPlaces, "titan-analyze"); }

void become_analyzer(std::vector<std::string>& words) {
    ::dup2(STDERR_FILENO, STDOUT_FILENO);
    ::unsetenv("LD_PRELOAD");
    std::vector<char*> arguments = mapped(words, [](std::string& word) { return word.data(); });
    arguments.push_back(nullptr);
    ::execv(arguments[0], arguments.data());
    ::_exit(2);
}

}  // namespace titan::tools
