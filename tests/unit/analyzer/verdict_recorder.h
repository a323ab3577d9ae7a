// Verdict files whose ranks leave PyTorch's Flight Recorder files: nothing is played, the lines say what is in them.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "run.h"
#include "scenario.h"
#include "verdict_program.h"

namespace titan::test {

class RecorderFiles {
  public:
    explicit RecorderFiles(int ranks) : ranks_(ranks) {}

    // "written 2 1500ms". False: it is no line about such files.
    bool add(const std::string& line);
    bool wanted() const { return wanted_; }
    // The programs' calls as they were recorded, in files of all ranks but those.
    analyzer::Run records(synth::Scenario& job, const Members& communicators, const std::set<int>& without) const;

  private:
    int ranks_;
    bool wanted_ = false;
    std::vector<std::vector<std::string>> lines_;
};

}  // namespace titan::test
