#include "run_directory.h"

#include <filesystem>

namespace titan::analyzer {
namespace {

bool all_digits(const std::string& text) {
    return !text.empty() && text.size() < 10 && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

RunDirectory::RunDirectory(const std::string& path) {
    const std::filesystem::path absolute = std::filesystem::absolute(path).lexically_normal();
    attempt = absolute.parent_path().filename().string();
    run = absolute.parent_path().parent_path().filename().string();
    if (!all_digits(attempt)) {
        run.clear();
        attempt.clear();
    }
}

}  // namespace titan::analyzer
