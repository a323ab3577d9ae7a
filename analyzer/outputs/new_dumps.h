// Looks into directories again and again for dumps that have come. Cheap where nothing has, also on a file server: a
// directory is only listed once more when its time has changed.
#pragma once

#include <sys/stat.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "host/result.h"

namespace titan::analyzer {

using WatchClock = std::chrono::steady_clock;

// Dumps of one run that came one soon after another.
struct Arrivals {
    std::string directory;            // of the run: DIR/RUN
    std::string run;                  // as its directory is called
    std::vector<std::string> files;   // oldest first
    std::set<std::string> processes;  // the stems of their names: "rank00003"
    std::set<std::string> attempts;
    WatchClock::time_point newest_at;  // when the newest was first seen
};

class NewDumps {
  public:
    // `directories` hold dumps as DIR/RUN/ATTEMPT/FILE, or are such a RUN or ATTEMPT; they may not be there yet.
    // `run`: of this one alone, empty: of all. Dumps written some minutes before count, too.
    NewDumps(std::vector<std::string> directories, std::string run);

    void look();
    // Paths of the journals there.
    std::set<std::string> journals() const;
    // By directory of the run, since it was last forgotten.
    std::map<std::string, Arrivals>& arrivals() { return arrivals_; }

  private:
    struct Directory {
        bool listed = false;
        int64_t changed_ns = 0;
        WatchClock::time_point list_until;
        std::vector<std::string> directories;
        std::set<std::string> dumps;
        std::set<std::string> journals;
    };

    void look_into(const std::string& path, int depth);
    void list(int opened, const std::string& path, int depth, Directory& directory);
    void add(const std::string& path, const std::string& name);

    std::vector<std::string> roots_;
    std::string run_;
    std::map<std::string, Directory> known_;
    std::map<std::string, Arrivals> arrivals_;
};

// --- When a file, or what is in a directory, was last changed.

inline int64_t time_ns(const struct stat& status) {
    return status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec;
}

// --- What a dump says of itself and its job, without being unpacked.

struct DumpHead {
    int32_t world_size = -1;
    int32_t attempt = 0;
    int64_t written_ns = 0;  // the file's own time
    int64_t age_ns = 0;      // of its process when it was made
    std::string started_by;  // the titan-run around the process (format::kStartedByVariable); empty: none
};

// Nothing where the file cannot be read, or is no dump.
std::optional<DumpHead> read_dump_head(const std::string& path);

// --- The verdict beside the dumps that it is about, for those who find no terminal. Of all who come to one, on any
// node, exactly one writes it, and each receiver is told by exactly one. One that names no cause is provisional: it
// gives way to a later one.

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
