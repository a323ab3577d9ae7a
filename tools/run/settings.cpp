#include "run/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include "host/words.h"

namespace titan::tools {
namespace {

constexpr std::string_view kLibraryName = "libtitantrace.so";

std::vector<std::string> other_preloads() {
    std::string text = environment("LD_PRELOAD");
    std::replace(text.begin(), text.end(), ':', ' ');
    std::istringstream words(text);
    std::vector<std::string> others;
    for (std::string word; words >> word;) {
        if (!word.ends_with(kLibraryName)) {
            others.push_back(word);
        }
    }
    return others;
}

std::vector<std::pair<std::string, std::string>> variables_of(const Settings& settings) {
    std::vector<std::pair<std::string, std::string>> variables = {{"TITANTRACE_DIR", settings.dumps}};
    for (const auto& [name, value] : {std::pair{"TITANTRACE_RING_DIR", settings.rings},
                                      {"TITANTRACE_RUN_ID", settings.run},
                                      {"TITANTRACE_TIMEOUT_S", settings.timeout_s}}) {
        if (!value.empty()) {
            variables.emplace_back(name, value);
        }
    }
    return variables;
}

}  // namespace

std::string environment(const char* name) {
    const char* const value = std::getenv(name);
    return value != nullptr ? value : "";
}

bool is_preloaded_already() { return environment("LD_PRELOAD").find(kLibraryName) != std::string::npos; }

std::string preload_with(const std::string& library) {
    std::string list;
    for (const std::string& other : other_preloads()) {
        list += (list.empty() ? "" : ":") + other;
    }
    return library.empty() ? list : list + (list.empty() ? "" : ":") + library;
}

void put_into_environment(const Settings& settings, bool preload) {
    for (const auto& [name, value] : variables_of(settings)) {
        ::setenv(name.c_str(), value.c_str(), 1);
    }
    // Without our library, the entry of an outer titan-run is removed, too.
    const std::string list = preload_with(preload ? settings.library : "");
    if (list.empty()) {
        ::unsetenv("LD_PRELOAD");
    } else {
        ::setenv("LD_PRELOAD", list.c_str(), 1);
    }
}

std::string export_lines(const Settings& settings) {
    std::string text = fmt::format("export LD_PRELOAD={}\n", shell_quoted(preload_with(settings.library)));
    for (const auto& [name, value] : variables_of(settings)) {
        text += fmt::format("export {}={}\n", name, shell_quoted(value));
    }
    return text;
}

}  // namespace titan::tools
