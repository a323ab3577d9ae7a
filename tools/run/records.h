// Finds what a job left on this node.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>

namespace titan::tools {

// Remembers what is there before the job starts, to tell its records from older ones.
class Records {
  public:
    Records(std::string dump_directory, std::string ring_directory);

    // Files since then in the attempt whose directory changed last, of what came there.
    struct NewFiles {
        std::string run;  // empty: none came
        size_t dumps = 0;
        size_t journals = 0;
    };
    NewFiles new_files() const;
    // True if a process that started since then left its ring: it was killed, or is still there.
    bool has_new_rings() const;
    // True if any process of this user has begun to record since then.
    bool anything_recorded() const;

  private:
    int64_t newest_change_of_rings() const;

    std::string dumps_;
    std::string rings_;
    std::optional<std::set<std::string>> attempts_;  // nothing: the dump directory did not answer
    uint64_t started_ticks_;
    int64_t rings_changed_;
};

// False where its file server hangs.
bool answers(const std::string& directory);

// The reason why dumps, or rings, could not be written to that directory; empty: none.
std::string trouble_with_dumps(const std::string& directory);
std::string trouble_with_rings(const std::string& directory);

}  // namespace titan::tools
