#include "analyzer/call_sites.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/flight_recorder.h"
#include "analyzer/text.h"

namespace titan::analyzer {
namespace {

std::string place_of(const std::vector<PythonSite>& python) {
    const auto own = std::find_if(python.begin(), python.end(),
                                  [](const PythonSite& site) { return !is_framework_file(site.file); });
    if (python.empty()) {
        return {};
    }
    const PythonSite& chosen = own != python.end() ? *own : python.front();
    return chosen.file.empty() ? std::string()
                               : fmt::format("{}:{} in {}", chosen.file.substr(chosen.file.rfind('/') + 1), chosen.line,
                                             chosen.function);
}

}  // namespace

std::string CallSites::python() const { return printable(image_.text(image_.header().python)); }

const CallSites::Known& CallSites::known(uint32_t number) {
    const auto [found, fresh] = known_.try_emplace(number);
    Known& known = found->second;
    if (const auto raw = fresh ? image_.stack(number) : std::nullopt) {
        for (const auto& frame : raw->python) {
            known.stack.python.push_back({printable(image_.text(frame.place.file)),
                                          printable(image_.text(frame.place.function)), frame.place.line,
                                          frame.is_entry});
        }
        known.stack.python_cut = raw->python_cut;
        known.place = place_of(known.stack.python);
    }
    return known;
}

const CallStack& CallSites::stack(uint32_t number) { return known(number).stack; }

const std::string& CallSites::place(uint32_t number) { return known(number).place; }

}  // namespace titan::analyzer
