// Looks into directories again and again for dumps that have come. Cheap where nothing has, also on a file server: a
// directory is only listed once more when its time has changed.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

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
    // By directory of the run, since it was last forgotten.
    std::map<std::string, Arrivals>& arrivals() { return arrivals_; }

  private:
    struct Directory {
        bool listed = false;
        int64_t changed_ns = 0;
        WatchClock::time_point list_until;
        std::vector<std::string> directories;
        std::set<std::string> dumps;
    };

    void look_into(const std::string& path, int depth);
    void list(int opened, const std::string& path, int depth, Directory& directory);
    void add(const std::string& path, const std::string& name);

    std::vector<std::string> roots_;
    std::string run_;
    std::map<std::string, Directory> known_;
    std::map<std::string, Arrivals> arrivals_;
};

}  // namespace titan::analyzer
