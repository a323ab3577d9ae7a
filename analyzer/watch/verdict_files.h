// The verdict beside the dumps that it is about, for those who find no terminal. Of all who come to one, on any node,
// exactly one writes it, and exactly one hands it on.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "host/result.h"

namespace titan::analyzer {

class VerdictFiles {
  public:
    // Beside this dump: its mode and owner are those of the files. Links below the run's directory are not followed.
    // `age_ns`: of its process then. So the start of the job is known by the clock that gives the files their times.
    VerdictFiles(const std::string& dump, int64_t age_ns);

    // True if there is a verdict on this start of the job.
    bool is_there() const;
    // Puts one on an earlier start aside. False: somebody else's was first. Error: it cannot be written.
    Result<bool> write(const std::string& json, const std::string& text) const;
    // For the first who asks: the JSON, to be read; for others nothing.
    std::optional<Fd> take() const;

    std::string text_path() const;

  private:
    bool written(struct stat& status) const;
    void put_aside(int64_t written_ns) const;
    std::optional<Error> write_new(const char* name, const std::string& bytes) const;

    std::string directory_;
    Fd opened_;
    struct stat dump_ {};
    int64_t started_ns_ = 0;
};

}  // namespace titan::analyzer
