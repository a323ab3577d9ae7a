#include "framework_files.h"

namespace titan::analyzer {

bool is_framework_file(std::string_view file) {
    return file.empty() || file.front() == '<' || file.find("/torch/") != std::string_view::npos ||
           file.find("/contextlib.py") != std::string_view::npos || file.find(".so") != std::string_view::npos;
}

}  // namespace titan::analyzer
