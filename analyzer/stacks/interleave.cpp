// Native and Python frames of a thread as one stack.
#include <algorithm>
#include <array>
#include <string_view>

#include "analyzer/stacks.h"

namespace titan::analyzer {
namespace {

// CPython's loop; compilers split cold parts off it.
bool runs_python(const StackSite& site) { return site.function.starts_with("_PyEval_EvalFrameDefault"); }

bool is_interpreter(const StackSite& site) {
    return site.module.starts_with("libpython") || site.module.starts_with("python3");
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
    const auto runs = std::count_if(thread.sites.begin(), thread.sites.end(), runs_python);
    const auto entries =
        std::count_if(thread.python.begin(), thread.python.end(), [](const PythonSite& site) { return site.is_entry; });
    const bool fits = runs != 0 && runs == entries;
    auto python = thread.python.begin();
    for (const StackSite& site : thread.sites) {
        if (fits && runs_python(site)) {
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
