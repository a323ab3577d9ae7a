// Words for edits of calls: as a verdict tells them, and as `titan-analyze whatif` takes them.
#pragma once

#include <string>
#include <vector>

#include "play.h"
#include "sentence.h"

namespace titan::analyzer {

// "all_reduce #48 on world", "send #40 to rank 5 on pp".
std::string edited_call_words(const Run& run, const CallEdit& edit);
// "rank 3 makes all_reduce #48 on world, too", "rank 3 leaves out ...", "ranks 5,7 go on"; joined by "and".
Sentence edits_fact(const Run& run, const std::vector<CallEdit>& edits);
// "--insert 'rank 3: all_reduce #48 on world' --alive 5".
std::string edit_options(const Run& run, const std::vector<CallEdit>& edits);

}  // namespace titan::analyzer
