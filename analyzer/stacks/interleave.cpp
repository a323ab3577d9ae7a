// Native and Python frames of a thread as one stack.
#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/stacks.h"

namespace titan::analyzer {
namespace {

bool is_interpreter(const StackSite& site) {
    return site.module.starts_with("libpython3") || site.module.starts_with("python3");
}

// Which native frames are runs of the interpreter, one for each entry among the Python frames; empty: that is not known.
std::vector<bool> find_runs(const ThreadStack& thread) {
    std::vector<bool> told(thread.sites.size());
    std::vector<bool> named(thread.sites.size());
    size_t entries = 0;
    for (const PythonSite& site : thread.python) {
        entries += site.is_entry ? 1 : 0;
        if (site.is_entry && site.native != 0 && site.native <= told.size()) {
            told[site.native - 1] = true;
        }
    }
    // Compilers split cold parts off CPython's loop.
    std::transform(thread.sites.begin(), thread.sites.end(), named.begin(),
                   [](const StackSite& site) { return site.function.starts_with("_PyEval_EvalFrameDefault"); });
    const auto fit = [&](const std::vector<bool>& runs) {
        return entries != 0 && std::count(runs.begin(), runs.end(), true) == static_cast<ptrdiff_t>(entries);
    };
    return fit(told) ? told : fit(named) ? named : std::vector<bool>();
}

// Where every thread that waits stands: what called it tells more.
bool is_plumbing(const StackSite& site) {
    constexpr auto kModules = std::to_array<std::string_view>(
        {"libc.so", "libpthread.so", "ld-linux", "[vdso]", "libtitantrace.so", "libstdc++.so", "libgcc_s.so"});
    return is_interpreter(site) || std::any_of(kModules.begin(), kModules.end(), [&](std::string_view module) {
               return site.module.starts_with(module);
           });
}

// Not what came with Python or was installed.
bool is_of_the_program(const PythonSite& site) {
    constexpr auto kElsewhere =
        std::to_array<std::string_view>({"/lib/python3", "/lib64/python3", "site-packages/", "dist-packages/"});
    return !site.file.empty() && !site.file.starts_with("<frozen") &&
           std::none_of(kElsewhere.begin(), kElsewhere.end(),
                        [&](std::string_view part) { return site.file.find(part) != std::string::npos; });
}

// What a crash interrupted: our handler, which waits for the dump, and the program's handlers before it tell nothing.
std::vector<StackSite>::const_iterator without_our_handler(const std::vector<StackSite>& sites) {
    auto first = sites.begin();
    bool ours = false;
    for (auto site = sites.begin(); site != sites.end(); ++site) {
        ours |= site->module.starts_with("libtitantrace.so");
        if (site->interrupted && ours) {
            first = site;
        }
    }
    return first;
}

}  // namespace

MergedStack interleave(const ThreadStack& thread) {
    MergedStack merged;
    const auto add_python = [&](const PythonSite& site) {
        const auto index = static_cast<uint32_t>(merged.frames.size());
        if (merged.python == kNoIndex) {
            merged.python = index;
        }
        if (merged.caller == kNoIndex && is_of_the_program(site)) {
            merged.caller = index;
        }
        merged.frames.push_back(site_text(site));
    };
    const std::vector<bool> runs = find_runs(thread);
    const bool fits = !runs.empty();
    auto python = thread.python.begin();
    for (auto next = without_our_handler(thread.sites); next != thread.sites.end(); ++next) {
        const StackSite& site = *next;
        if (fits && runs[static_cast<size_t>(next - thread.sites.begin())]) {
            for (bool more = true; more && python != thread.python.end(); ++python) {
                add_python(*python);
                more = !python->is_entry;
            }
        } else if (!fits || !is_interpreter(site)) {
            const bool inside = merged.python == kNoIndex && (fits || thread.python.empty());
            if (inside && merged.native == kNoIndex && !is_plumbing(site) && !site.function.empty()) {
                merged.native = static_cast<uint32_t>(merged.frames.size());
            }
            merged.frames.push_back(site_text(site));
        }
    }
    for (; python != thread.python.end(); ++python) {
        add_python(*python);
    }
    if (merged.caller == merged.python) {
        merged.caller = kNoIndex;
    }
    return merged;
}

}  // namespace titan::analyzer
