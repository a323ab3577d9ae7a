// A process beside the program that receives signals sent to all: slurmstepd signals each process of a step, mpirun and
// timeout(1) a process group. The program has received the same signals, so they need not be passed on.
#pragma once

#include <sys/types.h>

#include "base/fd.h"

namespace titan::tools {

class Bystander {
  public:
    // All that may be asked for is blocked by then. Where there can be none, every signal counts as sent to this
    // process alone.
    Bystander();
    Bystander(const Bystander&) = delete;
    Bystander& operator=(const Bystander&) = delete;
    ~Bystander();

    // Waits for it a moment: a sender takes one process after another.
    bool received(int number, pid_t sender);

  private:
    pid_t pid_ = -1;
    Fd told_;
};

}  // namespace titan::tools
