// titan-analyze watch, beside the job: the verdict while it still hangs.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/fd.h"
#include "run/settings.h"

namespace titan::tools {

class VerdictWatch {
  public:
    // Watches dumps that carry `mark`. `command`: to run for the verdict, empty: none. Where it cannot be started,
    // there is no verdict before the end.
    VerdictWatch(const Settings& settings, const std::string& command, const std::string& mark);
    VerdictWatch(const VerdictWatch&) = delete;
    VerdictWatch& operator=(const VerdictWatch&) = delete;
    ~VerdictWatch();

    // The job has ended. Waits for a verdict that is being written, for a command that runs, and where the job failed
    // for what its newest dumps tell: a minute at most.
    void end(bool failed);

  private:
    pid_t pid_ = -1;
    Fd tell_;
};

}  // namespace titan::tools
