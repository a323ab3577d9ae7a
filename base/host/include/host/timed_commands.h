// Commands of a user's that run beside a program: each for a limited time, and whatever becomes of them, the program
// goes on.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "base/fd.h"

namespace titan {

class TimedCommands {
  public:
    explicit TimedCommands(std::chrono::seconds limit) : limit_(limit) {}
    TimedCommands(const TimedCommands&) = delete;
    TimedCommands& operator=(const TimedCommands&) = delete;
    ~TimedCommands();  // ends those that still run

    // Starts it in a shell, with the file as its input. What it prints goes to standard error.
    bool start(const std::string& command, const Fd& input);
    // Ends those whose time is over. Says of each that has ended otherwise than with status 0 how it did.
    std::vector<std::string> look();
    bool any() const { return !running_.empty(); }

  private:
    struct Running {
        pid_t pid;
        std::chrono::steady_clock::time_point ends_at;
        bool killed = false;
    };

    std::chrono::seconds limit_;
    std::vector<Running> running_;
};

}  // namespace titan
