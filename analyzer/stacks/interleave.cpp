// Native and Python frames of a thread as one stack.
#include <algorithm>

#include "analyzer/stacks.h"

namespace titan::analyzer {
namespace {

// CPython's loop; compilers split cold parts off it.
bool runs_python(const StackSite& site) { return site.function.starts_with("_PyEval_EvalFrameDefault"); }

bool is_interpreter(const StackSite& site) {
    return site.module.starts_with("libpython") || site.module.starts_with("python3");
}

}  // namespace

std::vector<std::string> interleaved(const ThreadStack& thread) {
    std::vector<std::string> texts;
    const auto runs = std::count_if(thread.sites.begin(), thread.sites.end(), runs_python);
    const auto entries =
        std::count_if(thread.python.begin(), thread.python.end(), [](const PythonSite& site) { return site.is_entry; });
    const bool fits = runs != 0 && runs == entries;
    auto python = thread.python.begin();
    for (const StackSite& site : thread.sites) {
        if (fits && runs_python(site)) {
            for (bool more = true; more && python != thread.python.end(); ++python) {
                texts.push_back(site_text(*python));
                more = !python->is_entry;
            }
        } else if (!fits || !is_interpreter(site)) {
            texts.push_back(site_text(site));
        }
    }
    for (; python != thread.python.end(); ++python) {
        texts.push_back(site_text(*python));
    }
    return texts;
}

}  // namespace titan::analyzer
