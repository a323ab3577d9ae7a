// The ranks of a job that are not on this node. Their answers appear in the dump directory of the run, if it is shared,
// whichever attempt their nodes count.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "node/processes.h"

namespace titan::tools {

class OtherNodes {
  public:
    // Created before anybody is asked: dumps that have lain there for some seconds are no answer. `local`: ranks of one
    // run and attempt.
    explicit OtherNodes(const std::vector<NodeProcess>& local);

    // Reads the directory; remembers which dumps were there and which are new.
    void look();
    const std::map<int32_t, std::string>& answers() const { return answers_; }  // paths, by rank
    const std::vector<int>& missing() const { return missing_; }
    size_t ranks() const { return answers_.size() + missing_.size(); }
    const std::filesystem::path& directory() const { return directory_; }
    // Nobody can say which of them are recorded at all.
    bool has_unknown_ranks() const { return has_unknown_ranks_; }

  private:
    using Dumps = std::map<std::string, std::filesystem::file_time_type>;  // paths and when they were written
    Dumps dumps() const;

    uint32_t owner_ = 0;
    std::filesystem::path directory_;
    Dumps before_;
    std::filesystem::file_time_type newest_old_;
    std::vector<int> missing_;
    std::map<int32_t, std::string> answers_;
    bool has_unknown_ranks_ = false;
};

}  // namespace titan::tools
