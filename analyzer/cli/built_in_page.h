// The page of the HTML report that this program carries.
#pragma once

#include <string_view>

namespace titan::analyzer {

// Empty where it was built without one (the option -Dpage).
std::string_view built_in_page();

}  // namespace titan::analyzer
