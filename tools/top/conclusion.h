// What a page comes to, in one line: whom the others wait for, and what that rank does. A look at who waits for whom
// now, not a verdict: that takes dumps, with stacks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace titan::tools {

struct JobView;

enum class Alert : uint8_t { kNone, kLook, kAlarm };

struct Conclusion {
    Alert alert = Alert::kNone;
    std::string text;        // the ranks first: windows are narrow
    std::vector<int> ranks;  // that are to be looked at
};

Conclusion conclusion_of(const JobView& job);
const char* name_of(Alert alert);

}  // namespace titan::tools
