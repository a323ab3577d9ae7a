// The HTML report: a page that is built once (page/ in the tree), with the data of a run put into it.
#pragma once

#include <string>
#include <string_view>

#include "host/json_value.h"
#include "host/result.h"

namespace titan::analyzer {

// The page with its two places filled: the data, and the report as text for a browser that runs no scripts. Nothing in
// either can end the element that it is in. Error: this is no page of ours.
Result<std::string> page_html(std::string_view page, const Json& data, std::string_view text);

}  // namespace titan::analyzer
