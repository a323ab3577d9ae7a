#include "phases.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <string>

namespace titan::analyzer {
namespace {

// Rows of a phase and of its aliases, as they follow each other.
struct PhaseRow {
    std::string_view phase;  // empty: aliases of the one before
    std::string_view names;
};

constexpr PhaseRow kPhaseRows[] = {
#define PHASE(name, meaning) {#name, #name},
#define ALIASES(framework, names) {"", names},
#include "phases.def"
};

std::string without_case(std::string_view text) {
    std::string lower(text);
    for (char& c : lower) {
        c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
    return lower;
}

std::map<std::string, std::string_view, std::less<>> make_phases() {
    std::map<std::string, std::string_view, std::less<>> phases;
    std::string_view phase;
    for (const PhaseRow& row : kPhaseRows) {
        phase = row.phase.empty() ? phase : row.phase;
        for (size_t at = 0; at < row.names.size();) {
            const size_t end = std::min(row.names.find(' ', at), row.names.size());
            std::string name(row.names.substr(at, end - at));
            for (char& c : name) {
                c = c == '~' ? ' ' : c;
            }
            phases.emplace(std::move(name), phase);
            at = end + 1;
        }
    }
    return phases;
}

}  // namespace

std::string_view phase_of(std::string_view span_name) {
    static const auto phases = make_phases();
    const auto found = phases.find(without_case(span_name));
    return found == phases.end() ? std::string_view() : found->second;
}

}  // namespace titan::analyzer
