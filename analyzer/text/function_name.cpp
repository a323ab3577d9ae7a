#include "function_name.h"

#include <algorithm>
#include <cctype>

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

}  // namespace titan::analyzer
