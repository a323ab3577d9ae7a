// Native and Python frames of a thread as one stack.
#include <algorithm>
#include <array>
#include <string_view>

#include "host/words.h"
#include "named_stacks.h"

namespace titan::analyzer {
namespace {

// Marks the native frames that run the interpreter, one for each entry among the Python frames; empty if unknown.
std::vector<bool> find_runs(const std::vector<StackSite>& native, const std::vector<PythonSite>& python,
                            bool native_cut) {
    std::vector<bool> told(native.size());
    std::vector<bool> named(native.size());
    ptrdiff_t entries = 0;
    for (const PythonSite& site : python) {
        entries += site.is_entry ? 1 : 0;
        if (site.is_entry && site.native != 0 && site.native <= told.size()) {
            told[site.native - 1] = true;
        }
    }
    // Compilers split cold parts off CPython's loop.
    std::transform(native.begin(), native.end(), named.begin(),
                   [](const StackSite& site) { return site.function.starts_with("_PyEval_EvalFrameDefault"); });
    const auto fit = [&](const std::vector<bool>& runs) {
        const ptrdiff_t count = std::count(runs.begin(), runs.end(), true);
        return count != 0 && (count == entries || (native_cut && count < entries));
    };
    return fit(told) ? told : fit(named) ? named : std::vector<bool>();
}

// True for frames that every waiting thread has: their caller tells more.
bool is_plumbing(const StackSite& site) {
    constexpr auto kModules = std::to_array<std::string_view>(
        {"libc.so", "libpthread.so", "ld-linux", "[vdso]", "libtitantrace.so", "libstdc++.so", "libgcc_s.so"});
    return is_interpreter(site) || std::any_of(kModules.begin(), kModules.end(), [&](std::string_view module) {
               return site.module.starts_with(module);
           });
}

// The origin of a Python file: an installed package, Python itself; empty: the program.
std::string library_of(const PythonSite& site) {
    for (const std::string_view packages : {"site-packages/", "dist-packages/"}) {
        if (const size_t found = site.file.rfind(packages); found != std::string::npos) {
            const std::string inside = site.file.substr(found + packages.size());
            return inside.substr(0, inside.find_first_of("/."));
        }
    }
    const bool of_python = site.file.empty() || site.file.starts_with("<frozen") ||
                           site.file.find("/lib/python3") != std::string::npos ||
                           site.file.find("/lib64/python3") != std::string::npos;
    return of_python ? "Python" : "";
}

// Starts at the code that a crash interrupted: our handler, which waits for the dump, and the program's handlers around
// it tell nothing.
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

bool is_library(const std::string& path) {
    constexpr auto kPlaces = std::to_array<std::string_view>({"site-packages/", "dist-packages/"});
    constexpr auto kRoots = std::to_array<std::string_view>({"/usr/lib", "/lib", "/usr/local/cuda", "/opt/conda"});
    constexpr auto kNames = std::to_array<std::string_view>(
        {"libc.so",     "libpthread.so", "libm.so",          "ld-linux",   "[vdso]",      "libstdc++.so",
         "libgcc_s.so", "libcuda",       "libcudnn",         "libcublas",  "libcupti.so", "libnccl",
         "libtorch",    "libc10",        "libtitantrace.so", "libpython3", "python3",     "libffi.so",
         "_ctypes.",    "libgomp",       "libucs.so",        "libibverbs"});
    const std::string_view name = base_name(path);
    return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view known) { return name.starts_with(known); }) ||
           (name.find(".so") != std::string_view::npos &&
            (std::any_of(kRoots.begin(), kRoots.end(), [&](std::string_view root) { return path.starts_with(root); }) ||
             std::any_of(kPlaces.begin(), kPlaces.end(),
                         [&](std::string_view place) { return path.find(place) != std::string::npos; })));
}

bool is_interpreter(const StackSite& site) {
    return site.module.starts_with("libpython3") || site.module.starts_with("python3");
}

Interleaving interleave(const std::vector<StackSite>& native, const std::vector<PythonSite>& python, bool native_cut) {
    const std::vector<bool> runs = find_runs(native, python, native_cut);
    Interleaving result{.frames = {}, .fits = !runs.empty()};
    uint32_t next = 0;
    for (uint32_t i = 0; i < native.size(); ++i) {
        if (result.fits && runs[i]) {
            for (bool more = true; more && next < python.size(); ++next) {
                result.frames.push_back({true, next});
                more = !python[next].is_entry;
            }
        } else if (!result.fits || !is_interpreter(native[i])) {
            result.frames.push_back({false, i});
        }
    }
    for (; next < python.size(); ++next) {
        result.frames.push_back({true, next});
    }
    return result;
}

MergedStack merge(const ThreadStack& thread) {
    MergedStack merged;
    const Interleaving both = interleave(thread.sites, thread.python, false);
    // A helper of the program says less than who called it: a wait for a key, that it is the checkpoint's.
    std::string own_file;
    uint32_t of_another_file = kNoIndex;
    const auto first = static_cast<uint32_t>(without_our_handler(thread.sites) - thread.sites.begin());
    for (const auto& [is_python, number] : both.frames) {
        if (is_python) {
            const auto index = static_cast<uint32_t>(merged.frames.size());
            const PythonSite& site = thread.python[number];
            merged.python = merged.python == kNoIndex ? index : merged.python;
            merged.libraries.push_back(library_of(site));
            if (merged.caller == kNoIndex && merged.libraries.back().empty()) {
                merged.caller = index;
                own_file = site.file;
            } else if (of_another_file == kNoIndex && merged.libraries.back().empty() && site.file != own_file) {
                of_another_file = index;
            }
            merged.frames.push_back(site_text(site));
        } else if (number >= first) {
            const StackSite& site = thread.sites[number];
            const bool inside = merged.python == kNoIndex && (both.fits || thread.python.empty());
            const bool tells = inside && !is_plumbing(site) && !site.function.empty();
            for (const InlinedSite& inlined : site.inlined) {
                if (tells && merged.native == kNoIndex) {
                    merged.native = static_cast<uint32_t>(merged.frames.size());
                }
                merged.frames.push_back(site_text(site, inlined));
            }
            if (tells && merged.native == kNoIndex) {
                merged.native = static_cast<uint32_t>(merged.frames.size());
            }
            merged.frames.push_back(site_text(site));
            const bool of_library = site.of_library || site.function == "_start";
            if (!of_library && !site.module.empty() && merged.caller == kNoIndex && thread.python.empty()) {
                merged.caller = static_cast<uint32_t>(merged.libraries.size());
            }
            merged.libraries.resize(merged.frames.size(), of_library ? site.module : "");
        }
    }
    if (merged.caller == merged.python) {
        merged.caller = of_another_file;
    }
    if (merged.caller == merged.native) {
        merged.caller = kNoIndex;
    }
    return merged;
}

}  // namespace titan::analyzer
