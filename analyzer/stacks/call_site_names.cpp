#include "call_site_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "framework_files.h"
#include "function_name.h"
#include "host/words.h"

namespace titan::analyzer {
namespace {

// Not where a program's author would look.
bool is_framework_code(const StackSite& site) {
    constexpr auto kModules = std::to_array<std::string_view>(
        {"libnccl", "libtorch", "libc10", "libc.so", "libpthread.so", "libstdc++.so", "libffi.so", "_ctypes."});
    return is_interpreter(site) || std::any_of(kModules.begin(), kModules.end(), [&](std::string_view module) {
               return site.module.starts_with(module);
           });
}

std::string place_of(const PythonSite& site) {
    return site.file.empty() ? std::string()
                             : fmt::format("{}:{} in {}", base_name(site.file), site.line, site.function);
}

std::string place_of(const StackSite& site) {
    const InlinedSite whole{site.function, site.file, site.line};
    const InlinedSite& place = site.inlined.empty() ? whole : site.inlined.front();
    return place.file.empty() || place.function.empty()
               ? site_text(site)
               : fmt::format("{}:{} in {}", base_name(place.file), place.line, short_frame(place.function));
}

const std::string& file_of(const PythonSite& site) { return site.file; }
const std::string& file_of(const StackSite& site) {
    return site.inlined.empty() ? site.file : site.inlined.front().file;
}

template <typename Site, typename IsFramework>
std::string place_in(const std::vector<Site>& sites, IsFramework is_library) {
    const auto own = std::find_if_not(sites.begin(), sites.end(), is_library);
    return sites.empty() ? std::string() : place_of(own != sites.end() ? *own : sites.front());
}

// The callers of the innermost frame in the program itself: ", from train.py:157 in step". Those of its own file are
// often parts of a wrapper that all calls go through: if there are callers in other files, these tell more.
template <typename Site, typename IsFramework>
std::string way_to(const std::vector<Site>& sites, IsFramework is_library) {
    constexpr size_t kShownCallers = 2;
    std::vector<const Site*> own;
    for (const Site& site : sites) {
        if (!is_library(site)) {
            own.push_back(&site);
        }
    }
    std::vector<const Site*> callers;
    for (size_t i = 1; i < own.size(); ++i) {
        if (file_of(*own[i]) != file_of(*own[0])) {
            callers.push_back(own[i]);
        }
    }
    if (callers.empty() && !own.empty()) {
        callers.assign(own.begin() + 1, own.end());
    }
    callers.resize(std::min(callers.size(), kShownCallers));
    std::string text;
    for (const Site* const site : callers) {
        text += ", from " + place_of(*site);
    }
    return text;
}

CallFrame frame_of(const PythonSite& site) { return {site.function, site.file, site.line}; }

CallFrame frame_of(const StackSite& site) {
    return {site.function.empty() ? fmt::format("0x{:x}", site.module.empty() ? site.address : site.in_module)
                                  : site.function,
            site.file.empty() ? site.module : site.file, site.line};
}

}  // namespace

CallSites::CallSites(const format::RingImage& image, Symbols* symbols)
    : image_(image.call_sites()), symbols_(symbols), modules_(image_.modules()) {}

std::vector<std::string> CallSites::problems() const {
    std::vector<std::string> problems;
    for (const std::string& said :
         {printable(image_.text(image_.header().python)), printable(image_.text(image_.header().native))}) {
        if (!said.empty() && !said.starts_with("CPython ")) {
            problems.push_back(said);
        }
    }
    return problems;
}

StackSite CallSites::native_site(uint64_t address) {
    StackSite site;
    site.address = address;
    // If modules overlap, the one loaded last wins.
    const auto module = std::find_if(modules_.rbegin(), modules_.rend(), [&](const format::StackModule& candidate) {
        return address >= candidate.begin && address < candidate.end;
    });
    if (module != modules_.rend()) {
        const std::string path(image_.text(module->path));
        site.module = base_name(printable(path));
        site.in_module = address - module->bias;
        if (symbols_ != nullptr) {
            symbols_->name(*module, path, site, true);
        }
    }
    return site;
}

const CallSites::Known& CallSites::known(uint32_t number) {
    const auto [found, inserted] = known_.try_emplace(number);
    Known& known = found->second;
    if (const auto raw = inserted ? image_.stack(number) : std::nullopt) {
        for (const auto& frame : raw->python) {
            known.stack.python.push_back({printable(image_.text(frame.place.file)),
                                          printable(image_.text(frame.place.function)), frame.place.line,
                                          frame.is_entry});
        }
        for (const auto& frame : raw->native) {
            known.stack.native.push_back(native_site(frame.place.address));
        }
        known.stack.python_cut = raw->python_cut;
        known.stack.native_cut = raw->native_cut;
        const auto is_framework_site = [](const PythonSite& site) { return is_framework_file(site.file); };
        known.place = place_in(known.stack.python, is_framework_site);
        known.way = known.place + way_to(known.stack.python, is_framework_site);
        if (known.place.empty()) {
            known.place = place_in(known.stack.native, is_framework_code);
            known.way = known.place + way_to(known.stack.native, is_framework_code);
        }
    }
    return known;
}

const CallStack& CallSites::stack(uint32_t number) { return known(number).stack; }

const std::string& CallSites::place(uint32_t number) { return known(number).place; }

const std::string& CallSites::way(uint32_t number) { return known(number).way; }

std::vector<CallFrame> CallSites::frames(uint32_t number) {
    const CallStack& stack = known(number).stack;
    std::vector<CallFrame> frames;
    for (const auto& [is_python, number] : interleave(stack.native, stack.python, stack.native_cut).frames) {
        if (is_python) {
            frames.push_back(frame_of(stack.python[number]));
            continue;
        }
        for (const InlinedSite& inlined : stack.native[number].inlined) {
            frames.push_back({inlined.function, inlined.file, inlined.line});
        }
        frames.push_back(frame_of(stack.native[number]));
    }
    return frames;
}

}  // namespace titan::analyzer
