// What witnesses say in a text, without files.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "witness.h"

namespace titan::test {

inline std::vector<analyzer::Testimony> said_in(const std::string& text, const std::string& name = "job.log") {
    analyzer::WitnessFile file;
    file.path = file.label = name;
    file.text = text;
    return analyzer::testimonies_of(file);
}

inline bool any_line_has(const std::vector<std::string>& lines, const std::string& text) {
    return std::any_of(lines.begin(), lines.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
}

}  // namespace titan::test
