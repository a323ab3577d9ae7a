// What verdict files say of processes after their job was played: how they ended, where they stood, who aborted what.
#pragma once

#include <string>
#include <vector>

#include "run.h"
#include "scenario.h"

namespace titan::test {

class ProcessChanges {
  public:
    explicit ProcessChanges(int ranks) : ranks_(ranks) {}

    // "process 0,2: killed seen=+5ms". False: it is no line about processes.
    bool add(const std::string& line);
    // What must be in the rings.
    void change(synth::Scenario& job) const;
    // The rest, before the run is linked.
    void change(analyzer::Run& run) const;

  private:
    struct Line {
        std::string verb;
        std::vector<int> ranks;
        std::string text;  // of "rename", the old name
        std::string new_name;
        size_t thread = 1;
    };

    int ranks_;
    std::vector<Line> lines_;
};

}  // namespace titan::test
