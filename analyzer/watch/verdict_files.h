// The verdict beside the dumps that it is about, for those who find no terminal. Of all who come to one, on any node,
// exactly one writes it, and each receiver is told by exactly one. One that names no cause is provisional: it gives way
// to a later one.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "host/result.h"

namespace titan::analyzer {

// As it lies there.
struct WrittenVerdict {
    Fd file;  // to be read from its start
    std::string json;
    std::string line;  // one_line, as the JSON has it
    int64_t written_ns = 0;
    bool names_cause = false;
};

class VerdictFiles {
  public:
    // Beside this dump: its mode and owner are those of the files. Links below the run's directory are not followed.
    // `age_ns`: of its process then. So the start of the job is known by the clock that gives the files their times.
    VerdictFiles(const std::string& dump, int64_t age_ns);

    // The verdict on this start of the job, if there is one.
    std::optional<WrittenVerdict> read() const;
    // Puts one on an earlier start aside, and the one written at `replaced_ns`. False: somebody else's was first.
    // Error: it cannot be written.
    Result<bool> write(const std::string& json, const std::string& text, int64_t replaced_ns = 0) const;
    // True for the first who asks for this receiver since the job started: a word that is part of a file's name.
    bool take(std::string_view receiver) const;

    const std::string& directory() const { return directory_; }
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
