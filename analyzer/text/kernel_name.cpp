#include "kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace titan::analyzer {
namespace {

// The library's demangler repeats what a name refers back to: a few hundred hostile bytes can ask for gigabytes. Names
// with more references than this are read by our own eyes only.
constexpr size_t kMaxMangledBytes = 256;
constexpr int kMaxReferences = 14;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// A <source-name>: decimal length, then that many bytes. Advances `at`; a cut name is returned as far as it goes.
std::string read_identifier(const std::string& name, size_t& at) {
    size_t length = 0;
    while (at < name.size() && is_digit(name[at]) && length < 10'000) {
        length = length * 10 + static_cast<size_t>(name[at++] - '0');
    }
    const std::string text = name.substr(at, length);
    at += text.size();
    return text.starts_with("_GLOBAL__N_") ? "(anonymous namespace)" : text;
}

int count_references(const std::string& name) {
    int references = 0;
    for (size_t at = 2; at < name.size();) {
        if (is_digit(name[at])) {
            read_identifier(name, at);
        } else {
            references += name[at] == 'S' || name[at] == 'T' ? 1 : 0;
            ++at;
        }
    }
    return references;
}

std::string demangled(const std::string& name) {
    if (name.size() > kMaxMangledBytes || count_references(name) > kMaxReferences) {
        return {};
    }
    int status = -1;
    const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
                                                           &std::free);
    return status == 0 && text != nullptr ? std::string(text.get()) : std::string();
}

// Template arguments: from I to its E. Nested names, argument packs and literals end in E, too. False if the name is
// cut.
bool skip_template_arguments(const std::string& name, size_t& at) {
    int open = 0;
    while (at < name.size()) {
        const char c = name[at];
        if (c == 'L' && at + 1 < name.size() && name[at + 1] != '_') {  // a literal: type, value, E
            const size_t end = name.find('E', at);
            if (end == std::string::npos) {
                return false;
            }
            at = end + 1;
        } else if (is_digit(c)) {
            read_identifier(name, at);
        } else {
            open += c == 'I' || c == 'N' || c == 'J' || c == 'X' || c == 'F' ? 1 : c == 'E' ? -1 : 0;
            // In "St", "Sa" and similar names the letter after S opens nothing.
            at +=
                c == 'S' && at + 1 < name.size() && std::islower(static_cast<unsigned char>(name[at + 1])) != 0 ? 2 : 1;
        }
        if (open == 0) {
            return true;
        }
    }
    return false;
}

// _Z 4spin..., _ZN 2at6native...: the identifiers up to where the name ends or is cut.
std::string prefix_of(const std::string& name) {
    size_t at = 2;
    const bool nested = at < name.size() && name[at] == 'N';
    at += nested ? 1 : 0;
    while (at < name.size() && (name[at] == 'K' || name[at] == 'V' || name[at] == 'L')) {
        ++at;
    }
    std::string text;
    while (at < name.size()) {
        if (name.compare(at, 2, "St") == 0) {
            text = "std";
            at += 2;
        } else if (is_digit(name[at])) {
            const std::string part = read_identifier(name, at);
            text += (text.empty() || part.empty() ? "" : "::") + part;
            if (!nested && text != "std") {
                break;
            }
        } else if (name[at] != 'I' || !skip_template_arguments(name, at)) {
            break;
        }
    }
    return text;
}

bool is_mangled(const std::string& name) { return name.starts_with("_Z"); }

// Removes return type, template arguments and parameters. "(anonymous namespace)" is part of a name.
std::string without_arguments(const std::string& text) {
    static const std::string kAnonymous = "(anonymous namespace)";
    std::string result;
    int depth = 0;
    for (size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (depth == 0 && text.compare(at, kAnonymous.size(), kAnonymous) == 0) {
            result += kAnonymous;
            at += kAnonymous.size() - 1;
        } else if (depth == 0 && c == '(') {
            break;
        } else if (c == '<') {
            ++depth;
        } else if (c == '>' && depth > 0) {
            --depth;
        } else if (depth == 0 && c == ' ') {
            result.clear();  // the text so far was the return type
        } else if (depth == 0) {
            result += c;
        }
    }
    return result;
}

}  // namespace

std::string short_kernel_name(const std::string& name) {
    if (!is_mangled(name)) {
        return name;
    }
    std::string whole = demangled(name);
    std::string text = whole.empty() ? prefix_of(name) : without_arguments(whole);
    return text.empty() ? name : text;
}

std::string full_kernel_name(const std::string& name) {
    if (!is_mangled(name)) {
        return name;
    }
    std::string whole = demangled(name);
    if (!whole.empty()) {
        return whole;
    }
    const std::string text = prefix_of(name);
    return text.empty() ? name : text + "...";
}

}  // namespace titan::analyzer
