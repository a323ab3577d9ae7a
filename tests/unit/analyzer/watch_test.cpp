// What titan-analyze watch is made of: dumps that come, the verdict beside them, and commands in limited time.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host/timed_commands.h"
#include "new_dumps.h"
#include "temporary_directory.h"

using titan::Fd;
using titan::TimedCommands;
using titan::analyzer::NewDumps;
using titan::analyzer::VerdictFiles;
using titan::test::TemporaryDirectory;
namespace files = std::filesystem;

namespace {

constexpr int64_t kNsPerS = 1'000'000'000;

std::string put(const files::path& path, const std::string& text = "x") {
    files::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
}

std::string text_of(const files::path& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
}

void make_older(const files::path& path, int64_t seconds) {
    files::last_write_time(path, files::last_write_time(path) - std::chrono::seconds(seconds));
}

// A dump of a process that had run for ten seconds.
struct Attempt {
    TemporaryDirectory root;
    files::path directory = root.path + "/job/0";
    std::string dump = put(directory / "rank00000.0.titan");
    VerdictFiles files{dump, 10 * kNsPerS};
};

size_t count(const files::path& directory) {
    return static_cast<size_t>(std::distance(files::directory_iterator(directory), {}));
}

}  // namespace

TEST_CASE("dumps that come are told by run, with the processes that they are of") {
    const TemporaryDirectory root;
    put(root.path + "/job/0/rank00000.0.titan");
    make_older(put(root.path + "/old/0/rank00000.0.titan"), 3600);
    NewDumps dumps({root.path + "/", root.path + "/not/yet"}, "");
    dumps.look();
    REQUIRE(dumps.arrivals().size() == 1);  // recent ones count
    dumps.arrivals().clear();
    dumps.look();
    CHECK(dumps.arrivals().empty());

    put(root.path + "/old/0/rank00001.0.titan");
    put(root.path + "/old/1/rank00001.0.titan");
    put(root.path + "/old/1/rank00001.1.titan");
    put(root.path + "/old/1/.rank00002.titan.77.tmp");
    put(root.path + "/old/1/notes.txt");
    put(root.path + "/old/notes/rank00003.0.titan");
    put(root.path + "/not/yet/later/0/pid7.0.titan");
    dumps.look();
    REQUIRE(dumps.arrivals().size() == 2);
    const auto& old = dumps.arrivals().at(root.path + "/old");
    CHECK(old.run == "old");
    CHECK(old.processes == std::set<std::string>{"rank00001"});
    CHECK(old.attempts == std::set<std::string>{"0", "1"});
    CHECK(old.files.size() == 3);
    CHECK(dumps.arrivals().at(root.path + "/not/yet/later").processes == std::set<std::string>{"pid7"});
}

TEST_CASE("a directory of a run or an attempt can be watched, and one run of several") {
    const TemporaryDirectory root;
    put(root.path + "/job/0/rank00000.0.titan");
    put(root.path + "/other/0/rank00000.0.titan");
    for (const auto& [directory, run] : std::vector<std::pair<std::string, std::string>>{
             {root.path + "/job", ""}, {root.path + "/job/0", ""}, {root.path, "job"}}) {
        NewDumps dumps({directory}, run);
        dumps.look();
        CHECK(dumps.arrivals().size() == 1);
        CHECK(dumps.arrivals().contains(root.path + "/job"));
    }
}

TEST_CASE("no link is followed below a watched directory") {
    const TemporaryDirectory root;
    const TemporaryDirectory elsewhere;
    put(elsewhere.path + "/0/rank00000.0.titan");
    files::create_directory_symlink(elsewhere.path, root.path + "/job");
    files::create_directories(root.path + "/other");
    files::create_directory_symlink(elsewhere.path + "/0", root.path + "/other/0");
    NewDumps dumps({root.path}, "");
    dumps.look();
    CHECK(dumps.arrivals().empty());
}

TEST_CASE("of many who write a verdict one does, and of many who hand it on one does") {
    const Attempt attempt;
    int written = 0;
    int taken = 0;
    std::vector<pid_t> all;
    for (int i = 0; i < 8; ++i) {
        all.push_back(::fork());
        if (all.back() == 0) {
            const auto done = attempt.files.write("{}", "text");
            ::_exit((done && *done ? 1 : 0) + (attempt.files.take("0123abcd") ? 2 : 0));
        }
    }
    for (const pid_t pid : all) {
        int status = 0;
        ::waitpid(pid, &status, 0);
        written += WEXITSTATUS(status) & 1;
        taken += WEXITSTATUS(status) >> 1;
    }
    CHECK(written == 1);
    CHECK(taken == 1);
    CHECK(text_of(attempt.directory / "verdict.txt") == "text");
    const auto again = attempt.files.write("{\"other\":1}", "other");
    REQUIRE(again);
    CHECK_FALSE(*again);
    CHECK(text_of(attempt.directory / "verdict.json") == "{}");
    CHECK(count(attempt.directory) == 4);  // dump, verdict.txt, .json, .told
}

TEST_CASE("a verdict on an earlier start of the same attempt is kept, and the new one written and handed on") {
    const Attempt attempt;
    REQUIRE(attempt.files.write("first", "first"));
    CHECK(attempt.files.read());
    CHECK(attempt.files.take("0123abcd"));
    CHECK(attempt.files.take("of-another"));  // each command once
    for (const char* name : {"verdict.json", "verdict.0123abcd.told"}) {
        make_older(attempt.directory / name, 60);
    }
    CHECK_FALSE(attempt.files.read());
    const auto done = attempt.files.write("second", "second");
    REQUIRE(done);
    CHECK(*done);
    CHECK(text_of(attempt.directory / "verdict.json") == "second");
    CHECK(text_of(attempt.directory / "verdict.txt") == "second");
    CHECK(attempt.files.take("0123abcd"));
    CHECK_FALSE(attempt.files.take("0123abcd"));
    CHECK_FALSE(attempt.files.take("of-another"));
    CHECK(count(attempt.directory) == 8);  // the dump; two verdicts, each .txt, .json, .told; and the other .told
}

TEST_CASE("a verdict that names no cause gives way to a later one, and to no other") {
    const Attempt attempt;
    const std::string unknown = R"({"one_line":"run job: cannot tell","findings":[{"hangs":false}]})";
    REQUIRE(attempt.files.write(unknown, "cannot tell"));
    const auto first = attempt.files.read();
    REQUIRE(first);
    CHECK_FALSE(first->names_cause);
    CHECK(first->line == "run job: cannot tell");
    CHECK(first->json == unknown);
    const std::string cause = R"({"one_line":"run job: rank_stuck","findings":[{"hangs":true}]})";
    const auto replaced = attempt.files.write(cause, "VERDICT", first->written_ns);
    REQUIRE(replaced);
    CHECK(*replaced);
    const auto late = attempt.files.write(unknown, "cannot tell", first->written_ns);
    REQUIRE(late);
    CHECK_FALSE(*late);
    const auto second = attempt.files.read();
    REQUIRE(second);
    CHECK(second->names_cause);
    CHECK(second->json == cause);
    CHECK(text_of(attempt.directory / "verdict.txt") == "VERDICT");
    CHECK(text_of(attempt.directory / ("verdict." + std::to_string(first->written_ns) + ".json")) == unknown);
}

TEST_CASE("a verdict that is no JSON, or of other words, names no cause") {
    const Attempt attempt;
    for (const char* text : {"no JSON", "[]", R"({"one_line":3,"findings":{"hangs":true}})", R"({"findings":[7]})"}) {
        put(attempt.directory / "verdict.json", text);
        const auto verdict = attempt.files.read();
        REQUIRE(verdict);
        CHECK_FALSE(verdict->names_cause);
        CHECK(verdict->line.empty());
    }
}

TEST_CASE("links in the way of a verdict are neither followed nor replaced") {
    const Attempt attempt;
    const std::string other = put(attempt.root.path + "/other", "of somebody else");
    files::create_symlink(other, attempt.directory / "verdict.json");
    CHECK_FALSE(attempt.files.write("{}", "text"));
    CHECK_FALSE(attempt.files.read());
    CHECK(text_of(other) == "of somebody else");
    CHECK(count(attempt.directory) == 2);
    files::rename(attempt.directory, attempt.root.path + "/moved");
    files::create_directory_symlink(attempt.root.path + "/moved", attempt.directory);
    CHECK_FALSE(VerdictFiles(attempt.dump, 0).write("{}", "text"));
}

TEST_CASE("a verdict may be read by whom the dumps may be read by") {
    for (const mode_t mode : {mode_t{0600}, mode_t{0640}}) {
        const Attempt attempt;
        ::chmod(attempt.dump.c_str(), mode);
        REQUIRE(VerdictFiles(attempt.dump, 0).write("{}", "text"));
        for (const char* name : {"verdict.json", "verdict.txt"}) {
            struct stat status {};
            REQUIRE(::stat((attempt.directory / name).c_str(), &status) == 0);
            CHECK((status.st_mode & 0777) == mode);
        }
    }
}

TEST_CASE("commands get a file as input and a limited time, with all that they start") {
    const TemporaryDirectory root;
    const std::string input = put(root.path + "/input", "read this\n");
    const auto open_input = [&] { return Fd(::open(input.c_str(), O_RDONLY | O_CLOEXEC)); };
    TimedCommands commands(std::chrono::seconds(1));
    CHECK(commands.start("cat > " + root.path + "/copy", open_input()));
    CHECK(commands.start("exit 3", open_input()));
    CHECK(commands.start("kill -TERM $$", open_input()));
    CHECK(commands.start("sleep 1000 & echo $! > " + root.path + "/child; wait", open_input()));
    std::vector<std::string> said;
    while (commands.any()) {
        for (const std::string& text : commands.look()) {
            said.push_back(text);
        }
        std::this_thread::yield();
    }
    std::sort(said.begin(), said.end());
    CHECK(said == std::vector<std::string>{"did not end within 1 s and was killed", "ended with status 3",
                                           "was ended by SIGTERM"});
    CHECK(text_of(root.path + "/copy") == "read this\n");
    const pid_t child = std::stoi(text_of(root.path + "/child"));
    const auto lives = [&] {
        const std::string status = text_of("/proc/" + std::to_string(child) + "/stat");
        return !status.empty() && status.find(") Z ") == std::string::npos;
    };
    while (lives()) {
        std::this_thread::yield();
    }
    CHECK_FALSE(lives());
}
