// The program that titan-run stands in front of.
#pragma once

#include <string>
#include <vector>

namespace titan::tools {

struct Ended {
    int status = 0;  // exit status; as in a shell, 126 or 127 if the program could not be run
    int signal = 0;  // signal that ended it, 0 none
    bool started = true;
};

// Runs it to its end. Signals that reach this process go on to it; those of the terminal reach it by themselves.
Ended run_job(const std::vector<std::string>& command);

// Ends this process as the job ended, by the same signal if it was one.
[[noreturn]] void end_as(const Ended& ended);

}  // namespace titan::tools
