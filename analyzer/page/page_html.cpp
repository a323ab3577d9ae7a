#include "page_html.h"

#include <fmt/format.h>

#include "host/words.h"

namespace titan::analyzer {
namespace {

// page/src/page.html has each of them once.
constexpr std::string_view kDataPlace = "@REPORT_DATA@";
constexpr std::string_view kTextPlace = "@REPORT_TEXT@";

// JSON has '<' inside of texts only.
std::string script_safe(const std::string& json) {
    std::string safe;
    safe.reserve(json.size() + json.size() / 64);
    for (const char c : json) {
        if (c == '<') {
            safe += "\\u003c";
        } else {
            safe += c;
        }
    }
    return safe;
}

std::string html_escaped(std::string_view text) {
    std::string escaped;
    for (const char c : text) {
        switch (c) {
            case '<': escaped += "&lt;"; break;
            case '>': escaped += "&gt;"; break;
            case '&': escaped += "&amp;"; break;
            default: escaped += c;
        }
    }
    return escaped;
}

}  // namespace

Result<std::string> page_html(std::string_view page, const Json& data, std::string_view text) {
    const size_t data_at = page.find(kDataPlace);
    const size_t text_at = page.find(kTextPlace);
    if (data_at == std::string_view::npos || text_at == std::string_view::npos || text_at > data_at) {
        return Error(fmt::format("is no page of titantrace: it has no place for {} and {}", kTextPlace, kDataPlace));
    }
    std::string html(page.substr(0, text_at));
    html += html_escaped(printable(text, Keep::kOwnLines));
    html += page.substr(text_at + kTextPlace.size(), data_at - text_at - kTextPlace.size());
    html += script_safe(data.dump());
    html += page.substr(data_at + kDataPlace.size());
    return html;
}

}  // namespace titan::analyzer
