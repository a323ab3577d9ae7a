#include "call_site_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

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

// Frames of the program itself; where there are none, the innermost one.
template <typename Site, typename IsFramework>
std::vector<const Site*> own_of(const std::vector<Site>& sites, IsFramework is_library) {
    std::vector<const Site*> own;
    for (const Site& site : sites) {
        if (!is_library(site)) {
            own.push_back(&site);
        }
    }
    if (own.empty() && !sites.empty()) {
        own.push_back(&sites.front());
    }
    return own;
}

// The callers of the innermost frame. Those of its own file are often parts of a wrapper that all calls go through: if
// there are callers in other files, these tell more.
template <typename Site>
std::vector<const Site*> callers_of(const std::vector<const Site*>& own) {
    std::vector<const Site*> callers;
    for (size_t i = 1; i < own.size(); ++i) {
        if (file_of(*own[i]) != file_of(*own[0])) {
            callers.push_back(own[i]);
        }
    }
    if (callers.empty() && !own.empty()) {
        callers.assign(own.begin() + 1, own.end());
    }
    return callers;
}

// "train.py:9" of "train.py:9 in call".
std::string without_function(const std::string& place) { return place.substr(0, place.find(" in ")); }

struct Places {
    std::string place, caller, way;
};

template <typename Site, typename IsFramework>
Places places_in(const std::vector<Site>& sites, IsFramework is_library) {
    constexpr size_t kShownCallers = 2;
    const std::vector<const Site*> own = own_of(sites, is_library);
    if (own.empty()) {
        return {};
    }
    Places places;
    places.place = places.caller = places.way = place_of(*own.front());
    const std::vector<const Site*> callers = callers_of(own);
    for (size_t i = 0; i < std::min(callers.size(), kShownCallers); ++i) {
        places.way += ", from " + place_of(*callers[i]);  // ", from train.py:157 in step"
    }
    if (!callers.empty() && file_of(*callers.front()) != file_of(*own.front())) {
        places.caller = fmt::format("{} ({})", place_of(*callers.front()), without_function(places.place));
    }
    return places;
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
        Places places = places_in(known.stack.python, is_framework_site);
        if (places.place.empty()) {
            places = places_in(known.stack.native, is_framework_code);
        }
        known.place = std::move(places.place);
        known.caller = std::move(places.caller);
        known.way = std::move(places.way);
    }
    return known;
}

const CallStack& CallSites::stack(uint32_t number) { return known(number).stack; }

const std::string& CallSites::place(uint32_t number) { return known(number).place; }

const std::string& CallSites::caller(uint32_t number) { return known(number).caller; }

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

// --- places of markers

namespace {

uint8_t digit_of(char c) { return static_cast<uint8_t>(c <= '9' ? c - '0' : c - 'a' + 10); }

// As many whole bytes as there are.
uint32_t parse_build_id(const std::string& text, unsigned char* bytes) {
    uint32_t count = 0;
    for (size_t at = 0; at + 1 < text.size() && count < format::kMaxBuildIdBytes; at += 2) {
        bytes[count++] = static_cast<unsigned char>(digit_of(text[at]) << 4 | digit_of(text[at + 1]));
    }
    return count;
}

}  // namespace

// "0xOFFSET BUILDID MODULE", as the tracer writes it (name_marker_sites); "-" without a build id.
std::string MarkerPlaces::native_place(const std::string& stored) {
    const size_t first = stored.find(' ');
    const size_t second = first == std::string::npos ? first : stored.find(' ', first + 1);
    StackSite site;
    const bool is_hex =
        stored.starts_with("0x") &&
        std::from_chars(stored.data() + 2, stored.data() + stored.size(), site.in_module, 16).ec == std::errc();
    if (!is_hex || second == std::string::npos) {
        return {};
    }
    const std::string build_id = stored.substr(first + 1, second - first - 1);
    const std::string path = stored.substr(second + 1);
    const bool is_known = build_id.find_first_not_of("0123456789abcdef") == std::string::npos;
    site.module = base_name(printable(path));
    if (site.module.starts_with("libffi")) {
        return {};  // a call from another language: its own place was not told
    }
    if (symbols_ != nullptr && is_known) {
        format::StackModule module{};
        module.build_id_bytes = parse_build_id(build_id, module.build_id);
        symbols_->name(module, path, site, true);
    }
    if (!site.file.empty()) {
        return fmt::format("{}:{} {}", base_name(site.file), site.line, short_frame(site.function));
    }
    return site.function.empty() ? fmt::format("{}+0x{:x}", site.module, site.in_module)
                                 : fmt::format("{} {}", site.module, short_frame(site.function));
}

const std::string& MarkerPlaces::place(uint32_t number) {
    const auto [known, inserted] = known_.try_emplace(number);
    if (inserted) {
        const format::MarkerSiteRecord site = image_.marker_site(number);
        const std::string stored(image_.text(site.place));
        known->second = (site.key & format::kToldSite) != 0 ? printable(stored) : native_place(stored);
    }
    return known->second;
}

}  // namespace titan::analyzer
