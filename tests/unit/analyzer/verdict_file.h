// Verdicts as text: a job in a few lines, and what the diagnosis must say of it. verdicts/README.md is the language.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace titan::test {

struct VerdictLine {
    int number = 0;  // in its file
    std::string text;
};

// Everything from one line of "==" to the next.
struct VerdictCase {
    std::string file;
    VerdictLine title;
    std::vector<VerdictLine> lines;
};

// Values of what the case varies, by name.
using Variant = std::map<std::string, std::string>;

// In the order of their names and lines. Throws std::runtime_error with file and line.
std::vector<VerdictCase> read_verdict_files(const std::string& directory);
// One without values where the case varies nothing.
std::vector<Variant> variants_of(const VerdictCase& verdict);
// Plays the job and checks what is expected. Throws std::runtime_error with file and line on what it does not know.
void judge_verdict(const VerdictCase& verdict, const Variant& variant);

}  // namespace titan::test
