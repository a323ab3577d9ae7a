// Asking traced processes for a dump, by a word in their rings, and seeing them answer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/result.h"
#include "node/owned_file.h"
#include "node/processes.h"

namespace titan::tools {

// A process that was asked. The answer is the first dump that begins after the question.
class Question {
  public:
    // Error: it cannot be asked, and why.
    static Result<Question> ask(const NodeProcess& process, bool other_nodes);

    bool is_answered() const;
    // Path of the answer; empty if the process could not write it, or its path is too long for the ring.
    std::string path() const;
    bool was_written() const;

  private:
    Question(OwnedFile ring, const format::RingHeader& before) : ring_(std::move(ring)), before_(before) {}
    bool read_header(format::RingHeader& header) const;

    OwnedFile ring_;
    format::RingHeader before_;
};

// Wakes those who were asked: without it they look once a second. Returns what is wrong with job segments.
std::vector<std::string> wake_jobs(const std::vector<NodeProcess>& asked);

// The job segment's entry about a process that is gone. A tool that writes its dump claims it first, as ranks do.
enum class Claim { kOurs, kOthers, kNoPage };
Claim claim_gone(const NodeProcess& process);

}  // namespace titan::tools
