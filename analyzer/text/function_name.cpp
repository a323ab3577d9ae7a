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

}  // namespace

std::string short_frame(std::string_view text) {
    constexpr std::string_view kOperator = "operator";
    std::string result;
    bool are_closed = true;  // of a name that is cut, or hostile, brackets stay open
    for (size_t at = 0; at < text.size();) {
        const char c = text[at];
        const bool is_operator = std::string_view(result).ends_with(kOperator);
        const bool opens = (c == '(' || c == '<') && are_closed && ends_identifier(result) && !is_operator;
        const size_t behind = opens ? behind_bracket(text, at) : std::string_view::npos;
        are_closed = are_closed && (!opens || behind != std::string_view::npos);
        if (behind != std::string_view::npos) {
            at = behind;
        } else if (is_operator && text.substr(at, 2) == "()") {
            result += "()";
            at = text.substr(at + 2, 1) == "(" ? std::min(behind_bracket(text, at + 2), text.size()) : at + 2;
        } else {
            result += c;
            ++at;
        }
    }
    return result;
}

}  // namespace titan::analyzer
