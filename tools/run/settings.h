// The environment that a job is given.
#pragma once

#include <string>

namespace titan::tools {

// The variable's value; empty if it is not set.
std::string environment(const char* name);

struct Settings {
    std::string library;
    std::string dumps;  // absolute
    std::string rings;  // empty: the tracer's own choice
    std::string run;
    std::string timeout_s;
};

// LD_PRELOAD with the library behind what others want there: some preloads insist on being the first. Empty: without
// it.
std::string preload_with(const std::string& library);
bool is_preloaded_already();

void put_into_environment(const Settings& settings, bool preload);
// Export lines for people who set variables themselves.
std::string export_lines(const Settings& settings);

}  // namespace titan::tools
