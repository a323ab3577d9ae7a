// Writers of a diagnosis. They see findings and the run's outline, and decide nothing.
#pragma once

#include <string>

#include "finding.h"
#include "run.h"

namespace titan::analyzer {

struct TextStyle {
    bool colour = false;
    size_t width = 100;
    std::string input = "PATH";  // what names the records on a command line, quoted for the shell
};

std::string text_report(const Run& run, const Diagnosis& diagnosis, const TextStyle& style);
std::string layout_report(const Run& run, const TextStyle& style);
std::string layout_json_report(const Run& run);
std::string json_report(const Run& run, const Diagnosis& diagnosis);

}  // namespace titan::analyzer
