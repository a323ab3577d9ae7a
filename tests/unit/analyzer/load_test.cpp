#include <doctest/doctest.h>

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/process.h"
#include "decode_process.h"
#include "diagnose.h"
#include "load_run.h"
#include "played.h"
#include "ring_builder.h"
#include "rings.h"
#include "temporary_directory.h"

using namespace titan::test;
using namespace titan::analyzer;
using titan::synth::write_training;
namespace files = std::filesystem;

namespace {

LoadOptions options_for(const std::string& path) {
    LoadOptions options;
    options.paths = {path};
    return options;
}

Scenario sleeping_job(ScenarioOptions options, int culprit = 3, int ranks = 4) {
    Scenario job(ranks, std::move(options));
    write_training(job, 4);
    Program sleep;
    sleep.sleep();
    job.program(culprit).insert_before("world", 2, sleep);
    job.play();
    return job;
}

bool warns(const Run& run, const std::string& kind, const std::string& part = "") {
    for (const Warning& warning : run.warnings) {
        if (name_of(warning.kind) == kind && warning.summary.find(part) != std::string::npos) {
            return true;
        }
    }
    return false;
}

void spoil(const std::string& path, size_t size) { files::resize_file(path, size); }

std::string dump_path(const std::string& directory, int rank, const std::string& run = "synth", int attempt = 0,
                      int number = 0) {
    return directory + "/" + run + "/" + std::to_string(attempt) + "/rank0000" + std::to_string(rank) + "." +
           std::to_string(number) + ".titan";
}

}  // namespace

TEST_CASE("load: a call that is left of a wrapped ring may have started, though no start is left beside it") {
    ScenarioOptions options;
    options.method = titan::format::GpuProgressMethod::kEvents;
    Scenario job(2, options);
    job.program(1).hanging_kernel("bad", 0x51);
    job.every_rank([](int, Program& program) { program.all_reduce("world").sync(); });
    job.play();
    job.ring(0).call(0).state = titan::format::CallState::kStarted;
    job.ring(0).call(0).gpu_started_ticks = job.ring(0).call(0).entered_ticks + 1000;
    for (const uint64_t overwritten : {0, 1}) {
        Run run = titan::test::records_of(job);
        run.processes[1].overwritten = overwritten;
        run = titan::test::linked(std::move(run));
        CHECK(run.processes[1].entries[0].device ==
              (overwritten == 0 ? DeviceState::kNotReached : DeviceState::kUnknown));
    }
}

TEST_CASE("load: counters of messages that are missing from a file do not say that there were none") {
    titan::synth::RingBuilder ring({});
    const auto member = [&ring] {
        OpenedSource opened;
        opened.image = *titan::format::RingImage::open(ring.bytes());
        return decode_process(opened).members.front();
    };
    const uint32_t row = ring.add_communicator(7, 4, 0, "world");
    CHECK(member().p2p_counted);  // no message yet
    ring.count_p2p(row, true, 2);
    CHECK(member().p2p_counted);
    CHECK(member().sent_to(2) == 1);

    const auto& counters = ring.header().regions[static_cast<size_t>(titan::format::RegionKind::kP2pCounters) - 1];
    REQUIRE(counters.kind == titan::format::RegionKind::kP2pCounters);
    std::fill_n(ring.bytes().begin() + static_cast<std::ptrdiff_t>(counters.offset_bytes), 2 * 4 * sizeof(uint64_t),
                std::byte{0});
    CHECK(!member().p2p_counted);
}

TEST_CASE("a log that says nothing, named beside a directory, is left out and said") {
    TemporaryDirectory place;
    sleeping_job({}).write(place.path);
    const std::string log = place.path + "/job.out";
    std::ofstream(log) << "step 1\nstep 2\n";
    LoadOptions options = options_for(place.path);
    options.paths.push_back(log);
    const auto run = load_run(options);
    REQUIRE(run);
    CHECK(run->processes.size() == 4);
    CHECK(warns(*run, "damaged_file", "job.out: not read"));
    const auto alone = load_run(options_for(log));
    REQUIRE_FALSE(alone);
    CAPTURE(alone.error().text());
    CHECK(alone.error().text().find("job.out") != std::string::npos);
}

TEST_CASE("a directory gives the run in it, and its verdict") {
    TemporaryDirectory place;
    sleeping_job({}).write(place.path);
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(run->id == "synth");
    CHECK(run->world_size == 4);
    CHECK(run->ranks == ranks({0, 1, 2, 3}));
    const Diagnosis diagnosis = diagnose(*run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == ranks({3}));
    CHECK(diagnosis.findings[0].confidence == Confidence::kCertain);
}

TEST_CASE("paths that are nothing are errors that say so") {
    TemporaryDirectory place;
    CHECK(load_run(options_for(place.path + "/none")).error().text().find("no such file") != std::string::npos);
    CHECK(load_run(options_for(place.path)).error().text().find("no dumps") != std::string::npos);
}

TEST_CASE("the newest attempt is taken, others on request") {
    TemporaryDirectory place;
    ScenarioOptions second;
    second.attempt = 1;
    second.start_s = 1000;
    sleeping_job({}, 1).write(place.path);
    sleeping_job(second, 2).write(place.path);
    CHECK(load_run(options_for(place.path))->attempt == 1);
    LoadOptions options = options_for(place.path);
    options.attempt = 0;
    CHECK(load_run(options)->attempt == 0);
    options.run = "other";
    const auto missing = load_run(options);
    REQUIRE_FALSE(missing);
    CHECK(missing.error().text().find("synth/1") != std::string::npos);
}

TEST_CASE("of several dumps of a rank the newest usable one counts") {
    TemporaryDirectory place;
    Scenario job = sleeping_job({});
    job.write(place.path, {}, 0);
    job.write(place.path, {}, 1);
    spoil(dump_path(place.path, 2, "synth", 0, 1), 40);
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(run->ranks.size() == 4);
    CHECK(warns(*run, "damaged_file", "rank00002.1.titan"));
    CHECK(run->processes[2].source.label == "rank00002.0.titan");
}

TEST_CASE("damaged files are named and skipped") {
    TemporaryDirectory place;
    sleeping_job({}).write(place.path);
    spoil(dump_path(place.path, 0), 20);
    std::ofstream(dump_path(place.path, 1), std::ios::trunc) << "this is no dump at all, it is a text";
    spoil(dump_path(place.path, 2), 0);
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(run->ranks == ranks({3}));
    CHECK(run->missing_ranks == ranks({0, 1, 2}));
    CHECK(warns(*run, "damaged_file", "rank00000.0.titan: truncated"));
    CHECK(warns(*run, "damaged_file", "a text, no titantrace dump"));
    CHECK(warns(*run, "damaged_file", "empty file"));
    CHECK(warns(*run, "missing_dump"));
}

TEST_CASE("ten thousand empty files are one line") {
    TemporaryDirectory place;
    sleeping_job({}).write(place.path);
    const auto file_of = [&](int rank) { return place.path + "/synth/0/rank" + std::to_string(rank) + ".0.titan"; };
    std::ofstream{file_of(20'000)};
    for (int rank = 20'001; rank < 30'000; ++rank) {
        std::filesystem::create_hard_link(file_of(20'000), file_of(rank));  // a new file each takes ten times as long
    }
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(warns(*run, "damaged_file", "10,000 empty files"));
    size_t damage = 0;
    for (const Warning& warning : run->warnings) {
        damage += warning.kind == WarningKind::kDamagedFile ? 1 : 0;
    }
    CHECK(damage == 1);
}

TEST_CASE("two jobs with one run id in one directory are told apart") {
    TemporaryDirectory place;
    ScenarioOptions later;
    later.first_pid = 5000;
    later.id_salt = 0xfeed00;
    later.start_s = 1000;
    sleeping_job({}, 1).write(place.path);               // four ranks, the older job
    sleeping_job(later, 0, 2).write(place.path, {}, 7);  // two ranks, the newer
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(run->ranks == ranks({0, 1}));
    CHECK(run->world_size == 2);
    CHECK(warns(*run, "other_run"));
    CHECK(diagnose(*run).findings[0].ranks == ranks({0}));
}

// Of a job of two nodes that lost a rank of the second one and started again: only the second node counts an attempt
// more.
struct Restarted {
    TemporaryDirectory place;
    explicit Restarted(const std::set<int>& no_second_dump = {}) {
        sleeping_job({}, 1).write(place.path);
        ScenarioOptions again;
        again.first_pid = 5000;
        again.id_salt = 0xfeed00;
        again.start_s = 1000;
        std::set<int> of_first = no_second_dump, of_second = no_second_dump;
        of_first.insert({2, 3});
        of_second.insert({0, 1});
        sleeping_job(again, 3).write(place.path, of_first, 1);
        again.attempt = 1;
        sleeping_job(again, 3).write(place.path, of_second);
        const auto then = std::chrono::seconds(titan::synth::kEpochRealtimeNs / titan::synth::kSecond + 2000);
        for (const auto& item : files::recursive_directory_iterator(place.path)) {
            files::last_write_time(item.path(), files::file_time_type::clock::from_sys(std::chrono::sys_seconds(then)));
        }
    }
};

TEST_CASE("nodes that count different attempts of one start of the job are taken together") {
    const Restarted job;
    const auto run = load_run(options_for(job.place.path));
    REQUIRE(run);
    CHECK(run->ranks == ranks({0, 1, 2, 3}));
    CHECK(run->attempt == 1);
    CHECK(warns(*run, "attempts_differ", "ranks 0-1"));
    const Diagnosis diagnosis = diagnose(*run);
    REQUIRE(diagnosis.findings.size() == 1);
    CHECK(diagnosis.findings[0].ranks == ranks({3}));
    CHECK(diagnosis.findings[0].confidence == Confidence::kCertain);
}

TEST_CASE("of a start that counts different attempts a rank without a dump is missing, and not there from before") {
    for (const int missing : {0, 2, 3}) {
        CAPTURE(missing);
        const Restarted job({missing});
        const auto run = load_run(options_for(job.place.path));
        REQUIRE(run);
        CHECK(run->ranks.size() == 3);
        CHECK(run->missing_ranks == ranks({missing}));
        CHECK(warns(*run, "attempts_differ"));
    }
}

TEST_CASE("an attempt that is asked for is read alone") {
    const Restarted job;
    LoadOptions options = options_for(job.place.path);
    options.attempt = 1;
    const auto run = load_run(options);
    REQUIRE(run);
    CHECK(run->ranks == ranks({2, 3}));
    CHECK_FALSE(warns(*run, "attempts_differ"));
}

TEST_CASE("rings are read directly, and those of missing ranks are found on the node") {
    TemporaryDirectory dumps;
    TemporaryDirectory rings;
    Scenario job = sleeping_job({});
    job.write(dumps.path, {2, 3});
    const std::string directory = rings.path + "/titantrace-" + std::to_string(::geteuid());
    for (const int rank : {2, 3}) {
        titan::synth::write_file(directory + "/" + std::to_string(1000 + rank) + "-77.ring", job.ring(rank).bytes());
    }
    files::create_symlink(directory + "/1002-77.ring", directory + "/planted.ring");
    files::permissions(directory, files::perms::owner_all | files::perms::group_exec);
    CHECK_MESSAGE(list_rings({rings.path}).empty(), "a directory that others can enter");
    files::permissions(directory, files::perms::owner_all);
    LoadOptions options = options_for(dumps.path);
    options.ring_directories = {rings.path};
    const auto run = load_run(options);
    REQUIRE(run);
    CHECK(run->ranks == ranks({0, 1, 2, 3}));
    CHECK(run->processes[3].source.is_ring);
    CHECK(diagnose(*run).findings[0].ranks == ranks({3}));
    options.only_host = run->processes[3].host;
    CHECK(load_run(options)->ranks == ranks({0, 1, 2, 3}));
    options.only_host = "a container beside it";  // which sees the same /dev/shm
    CHECK_FALSE(load_run(options));
    options.only_host.clear();
    const std::vector<NodeRing> listed = list_rings({rings.path});
    REQUIRE(listed.size() == 2);
    const auto json = nlohmann::json::parse(ring_as_json(listed[1]));
    CHECK(json["path"] == directory + "/1003-77.ring");
    CHECK(json["rank"] == 3);
    CHECK(json["run"] == "synth");
    CHECK(json["process"] == liveness_text(listed[1].liveness));
    CHECK_FALSE(json.contains("problem"));
    NodeRing damaged;
    damaged.path = "a.ring";
    damaged.problem = "a.ring: too short";
    CHECK(ring_as_json(damaged) == "{\"path\":\"a.ring\",\"problem\":\"a.ring: too short\"}\n");

    CollectOptions collect;
    collect.ring_directories = {rings.path};
    collect.into = dumps.path;
    const CollectResult collected = collect_rings(collect);
    CHECK(collected.problems.empty());
    REQUIRE(collected.written.size() == 2);
    struct stat status {};
    REQUIRE(::stat(collected.written[0].c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    const CollectResult again = collect_rings(collect);
    CHECK(again.written.empty());
    CHECK(again.saved_before == 2);
    options.ring_directories.clear();
    CHECK(load_run(options)->ranks.size() == 4);
}

TEST_CASE("a directory of another user is said to be one, and what to do") {
    TemporaryDirectory place;
    const std::string closed = place.path + "/titantrace-0";
    files::create_directory(closed);
    files::permissions(closed, files::perms::none);
    files::permissions(place.path, files::perms::all);
    const uid_t user = ::geteuid();
    if (user == 0) {
        REQUIRE(::seteuid(65534) == 0);  // root may read all
    }
    const auto run = load_run(options_for(closed));
    if (user == 0) {
        REQUIRE(::seteuid(0) == 0);
    }
    files::permissions(closed, files::perms::all);
    REQUIRE_FALSE(run);
    CHECK(run.error().text().find("titantrace-0: permission denied: it belongs to the user with id " +
                                  std::to_string(user)) != std::string::npos);
    CHECK(run.error().text().find("run titan-analyze as the user that ran the job, or as root") != std::string::npos);
}

TEST_CASE("a ring directory that is a link or belongs to others is not read") {
    TemporaryDirectory rings;
    TemporaryDirectory elsewhere;
    Scenario job = sleeping_job({});
    titan::synth::write_file(elsewhere.path + "/1-1.ring", job.ring(0).bytes());
    files::create_directory_symlink(elsewhere.path, rings.path + "/titantrace-" + std::to_string(::geteuid()));
    CHECK(list_rings({rings.path}).empty());
}

TEST_CASE("a ring that is being made is not called one whose process ended") {
    TemporaryDirectory rings;
    const std::string directory = rings.path + "/titantrace-" + std::to_string(::geteuid());
    const std::string start = "-" + std::to_string(titan::process_start_ticks(::getpid()));
    const std::string being_made = std::to_string(::getpid()) + start + ".ring";
    titan::synth::write_file(directory + "/" + being_made, {});
    titan::synth::write_file(directory + "/1" + start + "-1.ring", std::vector<std::byte>(4096));
    files::permissions(directory, files::perms::owner_all);
    for (const NodeRing& ring : list_rings({rings.path})) {
        const bool lives = ring.path.ends_with(being_made);
        CHECK(ring.problem.find(lives ? "is being made" : "was never finished") != std::string::npos);
    }
    CHECK(list_rings({rings.path}).size() == 2);
}

TEST_CASE("a process of another boot that never said goodbye is not called dead") {
    TemporaryDirectory place;
    Scenario job = sleeping_job({});
    titan::synth::write_file(place.path + "/1-1.ring", job.ring(0).bytes());
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    CHECK(run->processes[0].liveness == Liveness::kUnknown);
}

TEST_CASE("what keeps a process from running is told by its dump's meta section, in whatever words for people") {
    TemporaryDirectory place;
    Scenario job = sleeping_job({});
    const auto halt_with = [&](const std::string& text) {
        std::string meta = titan::synth::dump_meta(job.now_ticks(3), "collected", true);
        const size_t detail = meta.find("synthetic\"");
        meta.replace(detail, 10, text);
        titan::synth::write_file(dump_path(place.path, 3), titan::synth::make_dump(job.ring(3), meta));
        const auto run = load_run(options_for(place.path));
        REQUIRE(run);
        return run->processes.front().ending.halt;
    };
    CHECK(halt_with(R"(new words","halt":"traced")") == titan::Halt::kTraced);
    CHECK(halt_with(R"(new words","halt":"frozen")") == titan::Halt::kFrozen);
    CHECK(halt_with(R"(new words","halt":"asleep")") == titan::Halt::kNone);
    CHECK(halt_with("the process is stopped by a debugger\"") == titan::Halt::kNone);
}

// Rank 0 is killed soon after it has written its dump, and another rank saves its ring, which has no sign of life since
// before the dumps.
TEST_CASE("a rank that another one saved lived when it wrote its own dump") {
    TemporaryDirectory place;
    ScenarioOptions options;
    options.odd_setting = 3;  // so that the dumps tell of settings
    options.hang_s = 2;
    Scenario job(4, options);
    job.every_rank([](int rank, Program& program) { program.send("world", (rank + 1) % 4).sync(); });
    job.play();
    for (int rank = 0; rank < 4; ++rank) {
        job.ring(rank).header().timeout_ns = 3 * titan::synth::kSecond / 2;
    }
    job.write(place.path);
    auto& ring = job.ring(0);
    const uint64_t dumped_ticks = job.now_ticks(0);
    ring.header().heartbeat_ticks = dumped_ticks - titan::synth::kSecond;
    titan::synth::write_file(dump_path(place.path, 0, "synth", 0, 1),
                             titan::synth::make_dump(ring, titan::synth::dump_meta(dumped_ticks + titan::synth::kSecond,
                                                                                   "collected", false)));
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    const Process& saved = run->processes[0];
    CHECK(saved.source.label == "rank00000.1.titan");
    CHECK(saved.now_ns == run->processes[1].now_ns);
    CHECK(saved.config == run->processes[1].config);
    const Diagnosis diagnosis = diagnose(*run);
    REQUIRE(!diagnosis.findings.empty());
    CHECK(diagnosis.findings[0].kind == FindingKind::kP2pCycle);
    CHECK(diagnosis.findings[0].ranks == ranks({0, 1, 2, 3}));
}

TEST_CASE("children in a dump are told as far as they make sense") {
    TemporaryDirectory place;
    Scenario job = sleeping_job({});
    job.write(place.path);
    std::string meta = titan::synth::dump_meta(job.now_ticks(3), "timeout", true);
    REQUIRE(meta.ends_with("}"));
    meta.pop_back();
    meta += R"(,"out_of_memory_kills":2,"children":[
        {"pid":71,"name":"pt_data\u001bworker","state":"D","stack":[{"file":"/a/b.py","function":"load","line":7},
            {"file":[],"line":-1}, 5, [[[[[[]]]]]]]},
        {"pid":-5}, {"pid":99999999999}, null, "x", {"pid":72,"stack":{"file":"y"}}],
        "ended_children":[{"pid":73,"ended_realtime_ns":1800000001000000000,"wait_status":9},
            {"pid":74,"ended_realtime_ns":18446744073709551615,"wait_status":99999999},
            {"pid":75,"ended_realtime_ns":5,"wait_status":-3}]})";
    titan::synth::write_file(dump_path(place.path, 3), titan::synth::make_dump(job.ring(3), meta));
    const auto run = load_run(options_for(place.path));
    REQUIRE(run);
    const Process& process = run->processes[3];
    CHECK(process.out_of_memory_kills == 2);
    REQUIRE(process.children.size() == 5);
    const ChildProcess& first = process.children[0];
    CHECK(process.text(first.name).find('\x1b') == std::string::npos);
    CHECK(first.state == 'D');
    REQUIRE(first.frames.size() == 1);
    CHECK(process.text(first.frames[0]) == "load at b.py:7");
    CHECK(process.children[1].pid == 72);
    CHECK(process.children[2].wait_status == SIGKILL);
    CHECK(process.children[3].wait_status == -1);
    CHECK(process.children[4].wait_status == -1);
    const Diagnosis diagnosis = diagnose(*run);
    REQUIRE(!diagnosis.findings.empty());
    std::string evidence;
    for (const Sentence& line : diagnosis.findings[0].evidence) {
        evidence += line.text() + "\n";
    }
    CHECK(evidence.find("child process 73 of rank 3 was killed by SIGKILL") != std::string::npos);
    CHECK(
        evidence.find("the OOM killer has killed 2 processes in the control group of rank 3 since the rank started") !=
        std::string::npos);
    CHECK(evidence.find("child process 74") == std::string::npos);
}
