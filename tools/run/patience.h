// Questions about a directory that may never be answered: its file server hangs. And a pipe that nobody may read.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace titan::tools {

// Asks in a process of its own and waits a few seconds for it; nothing where no answer came.
std::optional<std::string> answer_in_time(const std::function<std::string()>& question);

// True if a message to it arrives at once, or soon. False for a full pipe whose reader has stopped reading.
bool takes_words(int descriptor);

}  // namespace titan::tools
