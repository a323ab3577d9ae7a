// The files of a journal, and the reading of rings that others change meanwhile.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "formats/layout/journal_layout.h"
#include "job.h"
#include "journal_files.h"
#include "ring_tail.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"

using namespace titan::tracer;
using titan::test::list_dir;
using titan::test::rank_environment;
using titan::test::run_child;
using titan::test::Scratch;
namespace fs = std::filesystem;
namespace format = titan::format;

namespace {

constexpr uint64_t kSmallestBytes = 32 << 20;

struct Settings {
    Config config{};
    Identity identity{};

    explicit Settings(const Scratch& scratch) {
        std::strcpy(config.dir, scratch.dumps().c_str());
        std::strcpy(identity.run, "test");
        std::strcpy(identity.host, "node7");
        std::strcpy(identity.boot_id, "0123456789");
    }
};

std::string directory(const Scratch& scratch) { return scratch.dumps() + "/test/0"; }

std::string name(uint32_t number) { return "node7-01234567." + std::to_string(number) + ".journal"; }

// What `run` says of the journal's files of a rank, which keep the least there is.
template <typename Run>
int with_files(const Scratch& scratch, const Run& run) {
    return run_child(rank_environment(scratch, 0), [&] {
        if (start_session() == nullptr) {
            return 1;
        }
        JournalFiles files;
        files.start(session()->config, session()->identity, kSmallestBytes);
        return run(files);
    });
}

}  // namespace

TEST_CASE("a journal's file is appended to, and is its owner's alone") {
    const Scratch scratch;
    const Settings settings(scratch);
    JournalFiles files;
    files.start(settings.config, settings.identity, kSmallestBytes);
    CHECK(files.append("abc", 3));
    CHECK(files.append("defg", 4));
    const std::string path = directory(scratch) + "/" + name(0);
    CHECK(fs::file_size(path) == sizeof(format::DumpHeader) + 7);
    struct stat status {};
    REQUIRE(stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
}

TEST_CASE("what somebody else has done to a journal's file is left alone") {
    const Scratch scratch;
    const Settings settings(scratch);
    const std::string path = directory(scratch) + "/" + name(0);
    JournalFiles files;
    files.start(settings.config, settings.identity, kSmallestBytes);
    CHECK(files.append("abc", 3));
    const std::string other = scratch.path("other");
    std::ofstream(other) << "precious";
    SUBCASE("a link in its place") {
        fs::remove(path);
        fs::create_symlink(other, path);
    }
    SUBCASE("another file in its place") { fs::rename(other, path); }
    SUBCASE("it was cut") { fs::resize_file(path, 10); }
    const auto size_bytes = fs::file_size(path);
    // The number is taken, and there is no segment to give another one.
    CHECK_FALSE(files.append("defg", 4));
    CHECK(fs::file_size(path) == size_bytes);
}

TEST_CASE("a host's name cannot lead elsewhere") {
    const format::JournalName name("../../etc/x", "12", 3);
    CHECK(std::string(name.text) == "_._.._etc_x-12.3.journal");
}

TEST_CASE("the oldest files make room") {
    const Scratch scratch;
    const int status = with_files(scratch, [](JournalFiles& files) {
        const std::vector<char> block(3 << 20, 'x');  // the smallest file is 4 MiB: each has one
        for (int i = 0; i < 12; ++i) {
            if (!files.append(block.data(), block.size())) {
                return 2;
            }
        }
        return 0;
    });
    CHECK(status == 0);
    const std::vector<std::string> left = list_dir(directory(scratch));
    CHECK(left.size() == 8);
    CHECK(std::count_if(left.begin(), left.end(), [](const std::string& file) {
              return file.ends_with(".3.journal") || file.ends_with(".0.journal");
          }) == 0);
}

TEST_CASE("a full disk leaves no files without a block, and makes no old one go") {
    const Scratch scratch;
    const int status = with_files(scratch, [](JournalFiles& files) {
        const std::vector<char> block(4096, 'x');
        if (!files.append(block.data(), block.size())) {
            return 2;
        }
        const auto limit_files = [](rlim_t most_bytes) {
            const rlimit limit{most_bytes, RLIM_INFINITY};
            return setrlimit(RLIMIT_FSIZE, &limit) == 0;
        };
        std::signal(SIGXFSZ, SIG_IGN);  // a write that does not fit fails
        if (!limit_files(1024)) {
            return 3;
        }
        for (int i = 0; i < 20; ++i) {
            if (files.append(block.data(), block.size())) {
                return 4;
            }
        }
        return limit_files(RLIM_INFINITY) && files.append(block.data(), block.size()) ? 0 : 5;
    });
    CHECK(status == 0);
    const std::vector<std::string> left = list_dir(directory(scratch));
    CHECK(left.size() == 2);
    CHECK(std::all_of(left.begin(), left.end(), [](const std::string& file) {
        return file.ends_with(".0.journal") || file.ends_with(".1.journal");
    }));
}

TEST_CASE("no ring, no tail") {
    const Scratch scratch;
    RingTail tail;
    format::JobProcess process{};
    CHECK_FALSE(tail.open(process));
    std::memset(process.ring_path, 'x', sizeof(process.ring_path));
    CHECK_FALSE(tail.open(process));
    std::strcpy(process.ring_path, "/dev/null");
    CHECK_FALSE(tail.open(process));
}
