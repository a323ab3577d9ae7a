// What the tests of the cold side share: a directory that goes away, processes of their own, and dumps read
// back.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace titan::test {

// A fresh directory with the dumps below `dumps()` and the rings below `rings()`.
class Scratch {
  public:
    Scratch();
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::string path(const std::string& name) const { return root_ + "/" + name; }
    std::string dumps() const { return path("dumps"); }
    std::string rings() const { return path("rings"); }
    std::string ring_dir() const;  // the private directory in rings()
    std::vector<std::string> dump_names(int attempt = 0, const std::string& run = "test") const;  // sorted
    std::string dump_path(const std::string& name) const { return dumps() + "/test/0/" + name; }

  private:
    std::string root_;
};

using Environment = std::map<std::string, std::string>;

// The environment of a rank of the run "test", recording below `scratch`.
Environment rank_environment(const Scratch& scratch, int rank, int world_size = 1);
void apply(const Environment& environment);

// A process running `body` with that environment, stderr in `error_path` if given. It ends with body's
// result, by _exit.
pid_t start_child(const Environment& environment, const std::function<int()>& body, const std::string& error_path = "");
// Exit status, or 1000 + the signal that ended it.
int wait_child(pid_t child);
int run_child(const Environment& environment, const std::function<int()>& body, const std::string& error_path = "");

// How long to wait for what must come: a machine may be busy with other work. Nothing takes as long where all is well.
constexpr uint64_t kPatienceNs = 60'000'000'000;

// Waits until `condition` holds; false when that takes too long.
bool eventually(const std::function<bool()>& condition);

std::string read_file(const std::string& path);
std::vector<std::string> list_dir(const std::string& path);  // sorted, without dots

struct ReadDump {
    bool complete = false;
    std::string meta;
    std::string ring;
};
ReadDump read_dump(const std::string& path);
bool has(const std::string& text, const std::string& part);

}  // namespace titan::test
