// Which threads may get the signal that asks for their stack: none whose wait it would end, and none that it could
// kill. Watch thread.
#pragma once

#include <sys/types.h>

#include "ask_threads.h"
#include "base/proc_thread.h"
#include "formats/layout/stacks_layout.h"

namespace titan::tracer {

class MayAsk {
  public:
    // The signals are taken, if the program leaves some and `allowed`.
    explicit MayAsk(bool allowed);

    const StackSignals& signals() const { return signals_; }

    // The outcome that a thread keeps if it is not heard from. kNoAnswer: it may be asked.
    format::StackOutcome outcome_of(pid_t tid, const ProcThread& proc);

    // Why threads were not asked, for people; null where no stack is missing for that.
    const char* note() const;

  private:
    bool allowed_;
    StackSignals signals_{};
    bool has_signals_;
    bool any_hidden_ = false;
    bool any_confined_ = false;
    bool is_without_room_ = false;
    ProcThread own_{};
};

// The system does not tell where it waits.
bool is_hidden(const ProcThread& proc);

// A signal ends no wait of this kind: the kernel begins it again, and nobody notices. Not so a read or a write, which
// may end with a part, and whatever has a time limit (signal(7)).
bool is_restarted(const ProcThread& proc);

}  // namespace titan::tracer
