#include "function_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <memory>

namespace titan::analyzer {
namespace {

bool ends_identifier(std::string_view text) {
    return !text.empty() && (std::isalnum(static_cast<unsigned char>(text.back())) != 0 || text.back() == '_');
}

// The place behind the bracket that closes the one at `at`; npos where none does. What is inside other brackets does
// not count.
size_t behind_bracket(std::string_view text, size_t at) {
    int open = 0;
    for (; at < text.size(); ++at) {
        const char c = text[at];
        open += c == '(' || c == '<' ? 1 : 0;
        open -= c == ')' || (c == '>' && (at == 0 || text[at - 1] != '-')) ? 1 : 0;
        if (open == 0) {
            return at + 1;
        }
    }
    return std::string_view::npos;
}

constexpr std::string_view kOperator = "operator";
constexpr std::string_view kAnonymous = "(anonymous namespace)";

// "f() [clone .constprop.0]", "name[abi:cxx11]": what the compiler says of itself.
std::string without_marks(std::string_view text) {
    std::string result(text);
    for (const std::string_view mark : {" [clone ", "[abi:"}) {
        for (size_t at = 0; (at = result.find(mark)) != std::string::npos;) {
            const size_t end = result.find(']', at);
            if (end == std::string::npos) {
                return result;
            }
            result.erase(at, end + 1 - at);
        }
    }
    return result;
}

// Where the name of a frame ends: before its place or its library.
size_t name_end(std::string_view frame) {
    size_t library = frame.find(" (");
    while (library != std::string_view::npos && frame.substr(library + 1).starts_with(kAnonymous)) {
        library = frame.find(" (", library + 1);
    }
    return std::min({frame.find(" at "), library, frame.size()});
}

// "void at::f const (lib)" -> "at::f (lib)".
std::string without_return_type(std::string_view frame) {
    const size_t end = name_end(frame);
    std::string_view name = frame.substr(0, end);
    for (const std::string_view qualifier : {"&", " const", " volatile"}) {
        while (name.ends_with(qualifier)) {
            name.remove_suffix(qualifier.size());
        }
    }
    const size_t until = std::min(name.find(kOperator), name.size());  // "operator bool"
    size_t begin = 0;
    int open = 0;
    for (size_t at = 0; at < until; ++at) {
        open += name[at] == '(' || name[at] == '<' || name[at] == '{' ? 1 : 0;
        open -= name[at] == ')' || name[at] == '>' || name[at] == '}' ? 1 : 0;
        begin = name[at] == ' ' && open == 0 ? at + 1 : begin;
    }
    return std::string(name.substr(begin)) + std::string(frame.substr(end));
}

}  // namespace

std::string short_frame(std::string_view frame) {
    const std::string unmarked = without_marks(frame);
    const std::string_view text = unmarked;
    std::string result;
    bool any_cut = false;
    bool are_closed = true;  // of a name that is cut, or hostile, brackets stay open
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        const bool is_operator = std::string_view(result).ends_with(kOperator);
        const bool opens = (c == '(' || c == '<') && are_closed && ends_identifier(result) && !is_operator;
        const size_t behind = opens ? behind_bracket(text, at) : std::string_view::npos;
        are_closed = are_closed && (!opens || behind != std::string_view::npos);
        if (behind != std::string_view::npos) {
            at = behind;
            any_cut = true;
        } else if (is_operator && text.substr(at, 2) == "()") {
            result += "()";
            any_cut = true;
            at = text.substr(at + 2, 1) == "(" ? std::min(behind_bracket(text, at + 2), text.size()) : at + 2;
        } else {
            result += c;
            ++at;
        }
    }
    return any_cut ? without_return_type(result) : result;
}

// --- files of frameworks

bool is_framework_file(std::string_view file) {
    return file.empty() || file.front() == '<' || file.find("/torch/") != std::string_view::npos ||
           file.find("/contextlib.py") != std::string_view::npos || file.find(".so") != std::string_view::npos;
}

// --- names of kernels

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
