#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "dumper.h"
#include "scratch.h"
#include "session.h"
#include "start_session.h"
#include "watch.h"

using namespace titan::tracer;
using titan::format::DumpReason;
using titan::test::has;
using titan::test::kPatienceNs;
using titan::test::rank_environment;
using titan::test::read_dump;
using titan::test::read_file;
using titan::test::run_child;
using titan::test::Scratch;
namespace fs = std::filesystem;
namespace format = titan::format;

namespace {

int dump_times(int times) {
    if (start_session() == nullptr) {
        return 10;
    }
    for (int i = 0; i < times; ++i) {
        request_dump(DumpReason::kApi, "for the test");
        if (!wait_for_dump(kPatienceNs)) {
            return 11;
        }
    }
    return 0;
}

using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("a dump is complete, private and says what it is") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 3, 8);
    environment["NCCL_DEBUG"] = "WARN";
    environment["UCX_TLS"] = "rc";
    environment["NCCL_PLUGIN_API_KEY"] = "of nobody's business";
    CHECK(run_child(
              environment, [] { return dump_times(1); }, scratch.path("errors")) == 0);
    CHECK(scratch.dump_names() == Names{"rank00003.0.titan"});
    for (const auto& name : titan::test::list_dir(scratch.dumps() + "/test/0")) {
        CHECK_FALSE(name.ends_with(".tmp"));
    }
    struct stat file {};
    stat(scratch.dump_path("rank00003.0.titan").c_str(), &file);
    CHECK((file.st_mode & 0777) == 0600);
    auto dump = read_dump(scratch.dump_path("rank00003.0.titan"));
    CHECK(dump.complete);
    CHECK(has(dump.meta,
              "{\"schema\":1,\"dump\":0,\"reason\":\"api\",\"detail\":\"for the test\",\"requested_by_rank\":3,"));
    CHECK(has(dump.meta, "\"saved_by_rank\":-1,\"process_alive\":true,\"processors\":{\"online\":"));
    CHECK(has(dump.meta, "\"NCCL_DEBUG\":\"WARN\""));
    CHECK(has(dump.meta, "\"UCX_TLS\":\"rc\""));
    CHECK_FALSE(has(dump.meta, "business"));
    CHECK(has(dump.meta, ",\"machine\":{"));
    CHECK(has(dump.meta, "\"kernel\":\""));
    REQUIRE(dump.ring.size() >= sizeof(format::RingHeader));
    const auto& header = *reinterpret_cast<const format::RingHeader*>(dump.ring.data());
    CHECK(header.magic == format::kRingMagic);
    CHECK(header.rank == 3);
    CHECK(header.file_bytes >= dump.ring.size());  // pages of zeros at the end are left out
    CHECK(read_file(scratch.path("errors")) ==
          "titantrace: rank 3: dump written to " + scratch.dump_path("rank00003.0.titan") + " (api: for the test)\n");
}

TEST_CASE("a group may read dumps, if the user is in it") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_GROUP"] = std::to_string(getegid());
    CHECK(run_child(environment, [] { return dump_times(1); }) == 0);
    struct stat file {};
    REQUIRE(stat(scratch.dump_path("rank00000.0.titan").c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0640);
    CHECK(file.st_gid == getegid());
}

TEST_CASE("a dump holds the variables that were set after the start") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["NCCL_DEBUG"] = "WARN";
    const auto set_one_and_dump = [] {
        start_session();
        setenv("NCCL_ALGO", "Tree", 1);
        setenv("NCCL_DEBUG", "INFO", 1);
        note_environment();
        setenv("NCCL_PROTO", "LL", 1);
        note_environment();  // only the first one counts
        return dump_times(1);
    };
    CHECK(run_child(environment, set_one_and_dump) == 0);
    const auto dump = read_dump(scratch.dump_path("rank00000.0.titan"));
    CHECK(has(dump.meta, "\"NCCL_ALGO\":\"Tree\""));
    CHECK(has(dump.meta, "\"NCCL_DEBUG\":\"INFO\""));
    CHECK_FALSE(has(dump.meta, "NCCL_PROTO"));
}

TEST_CASE("a run's directory says what it is, written by whoever makes it and never again") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    CHECK(run_child(environment, [] { return dump_times(1); }) == 0);
    const std::string readme = std::filesystem::path(scratch.dump_path("")).parent_path().parent_path() / "README";
    CHECK(has(read_file(readme), "titan-analyze DIR"));
    struct stat file {};
    stat(readme.c_str(), &file);
    CHECK((file.st_mode & 0777) == 0600);
    std::filesystem::remove(readme);
    CHECK(run_child(environment, [] { return dump_times(1); }) == 0);
    CHECK(!std::filesystem::exists(readme));
}

TEST_CASE("numbers go on, the last three stay, nothing is overwritten") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    CHECK(run_child(environment, [] { return dump_times(2); }) == 0);
    CHECK(scratch.dump_names() == Names{"rank00000.0.titan", "rank00000.1.titan"});
    CHECK(run_child(environment, [] { return dump_times(3); }) == 0);
    CHECK(scratch.dump_names() == Names{"rank00000.2.titan", "rank00000.3.titan", "rank00000.4.titan"});
    auto other = rank_environment(scratch, 1);
    other["TITANTRACE_RING_DIR"] = scratch.path("");  // of another node: on the same it would save the first one's ring
    CHECK(run_child(other, [] { return dump_times(1); }) == 0);
    CHECK(scratch.dump_names().size() == 4);
    // The directory is not listed: one that comes later takes the first number that is free, whatever those before it
    // had.
    CHECK(run_child(environment, [] { return dump_times(1); }) == 0);
    CHECK(scratch.dump_names() == Names{"rank00000.0.titan", "rank00000.2.titan", "rank00000.3.titan",
                                        "rank00000.4.titan", "rank00001.0.titan"});
}

TEST_CASE("a number that somebody else took meanwhile is passed over") {
    Scratch scratch;
    CHECK(run_child(rank_environment(scratch, 0), [&] {
              int status = dump_times(1);
              close(open(scratch.dump_path("rank00000.1.titan").c_str(), O_CREAT | O_RDWR, 0600));
              return status != 0 ? status : dump_times(1);
          }) == 0);
    CHECK(fs::file_size(scratch.dump_path("rank00000.1.titan")) == 0);
    CHECK(fs::exists(scratch.dump_path("rank00000.2.titan")));
}

TEST_CASE("an unusable directory: the dump goes elsewhere and says where") {
    Scratch scratch;
    bool mounted = false;
    SUBCASE("a file in its place") { close(open(scratch.dumps().c_str(), O_CREAT | O_RDWR, 0600)); }
    SUBCASE("read-only") {
        fs::create_directory(scratch.dumps());
        mounted = mount("tmpfs", scratch.dumps().c_str(), "tmpfs", MS_RDONLY, nullptr) == 0;
        if (!mounted) {
            MESSAGE("skipped: mounting a tmpfs needs root");
            return;
        }
    }
    SUBCASE("full") {
        fs::create_directory(scratch.dumps());
        mounted = mount("tmpfs", scratch.dumps().c_str(), "tmpfs", 0, "size=4k") == 0;
        if (!mounted) {
            MESSAGE("skipped: mounting a tmpfs needs root");
            return;
        }
        std::ofstream(scratch.dumps() + "/filler") << std::string(4096, 'x');
    }
    SUBCASE("the run's directory is a link") {
        fs::create_directory(scratch.dumps());
        fs::create_directory(scratch.path("elsewhere"));
        fs::create_symlink(scratch.path("elsewhere"), scratch.dumps() + "/test");
    }
    CHECK(run_child(
              rank_environment(scratch, 2), [] { return dump_times(1); }, scratch.path("errors")) == 0);
    std::string fallback = scratch.path("/titantrace-") + std::to_string(geteuid()) + "/test/0/rank00002.0.titan";
    CHECK(read_dump(fallback).complete);
    std::string errors = read_file(scratch.path("errors"));
    INFO(errors);
    CHECK(has(errors, "rank 2: dump written to "));
    CHECK(has(errors, "cannot be written: "));
    if (!mounted) {
        CHECK_FALSE(fs::exists(scratch.path("elsewhere/0")));
    } else {
        CHECK(scratch.dump_names().empty());
        CHECK(titan::test::list_dir(scratch.dumps() + "/test/0").empty());
        umount2(scratch.dumps().c_str(), MNT_DETACH);
    }
}

TEST_CASE("a relative directory is the one of the start; closed descriptors change nothing") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_DIR"] = "dumps";
    int status = run_child(environment, [&] {
        [[maybe_unused]] int moved = chdir(scratch.path("").c_str());
        if (start_session() == nullptr) {
            return 1;
        }
        moved = chdir("/");
        for (int fd = 0; fd < 1024; ++fd) {
            close(fd);
        }
        return dump_times(1);
    });
    CHECK(status == 0);
    CHECK(read_dump(scratch.dump_path("rank00000.0.titan")).complete);
}

// Time of the processor: the time on the wall is the machine's other work, too.
TEST_CASE("a full ring: under 2 MiB and 300 ms") {
    Scratch scratch;
    int status = run_child(rank_environment(scratch, 0, 8), [&] {
        Session* session = start_session();
        format::RingHeader& header = *session->ring_file.header;
        const format::RegionDescriptor* region = nullptr;
        format::RegionCursor* cursor = nullptr;
        auto* entries = reinterpret_cast<format::CollectiveEntry*>(
            region_bytes(header, format::RegionKind::kCollectives, &region, &cursor));
        unsigned seed = 1;
        for (uint64_t i = 0; i < region->count; ++i) {
            format::CollectiveEntry& entry = entries[i];
            entry.slot_sequence = 2 * i + 2;
            entry.communicator_id = 0x1234567890abcdef * (1 + i % 6);
            entry.sequence = i / 6;
            entry.count = 1024u << (i % 8);
            entry.send_buffer = 0x7f0000000000 + static_cast<uint64_t>(rand_r(&seed)) * 512;
            entry.receive_buffer = 0x7f0000000000 + static_cast<uint64_t>(rand_r(&seed)) * 512;
            entry.entered_ticks = 1000000000 + i * 200000 + static_cast<uint64_t>(rand_r(&seed)) % 100000;
            entry.returned_ticks = entry.entered_ticks + static_cast<uint64_t>(rand_r(&seed)) % 30000;
            entry.gpu_finished_ticks = entry.returned_ticks + static_cast<uint64_t>(rand_r(&seed)) % 900000;
            entry.step = static_cast<int64_t>(i / 100);
            entry.kind = format::OpKind::kAllReduce;
            entry.state = format::CallState::kFinished;
        }
        cursor->head = region->count;
        auto* calls =
            reinterpret_cast<format::CudaCallEntry*>(region_bytes(header, format::RegionKind::kCudaCalls, &region));
        for (uint64_t i = 0; i < region->count; ++i) {
            calls[i] = {2 * i + 2,
                        5000000 + i * 3000 + static_cast<uint64_t>(rand_r(&seed)) % 1000,
                        5000900 + i * 3000 + static_cast<uint64_t>(rand_r(&seed)) % 1000,
                        0x5500,
                        1,
                        3,
                        77,
                        0,
                        0,
                        0};
        }
        auto* markers =
            reinterpret_cast<format::MarkerEntry*>(region_bytes(header, format::RegionKind::kMarkers, &region));
        for (uint64_t i = 0; i < region->count; ++i) {
            markers[i] = {2 * i + 2,
                          900000 + i * 7000 + static_cast<uint64_t>(rand_r(&seed)) % 5000,
                          static_cast<uint64_t>(rand_r(&seed)),
                          1,
                          4,
                          0,
                          77,
                          format::MarkerKind::kMetric,
                          0,
                          0,
                          0,
                          1,
                          1,
                          0};
        }
        const clock_t begin = clock();
        int result = dump_times(1);
        double milliseconds = static_cast<double>(clock() - begin) * 1000 / CLOCKS_PER_SEC;
        FILE* figures = fopen(scratch.path("figures").c_str(), "w");
        fprintf(figures, "%f", milliseconds);
        fclose(figures);
        return result;
    });
    CHECK(status == 0);
    double milliseconds = atof(read_file(scratch.path("figures")).c_str());
    auto bytes = fs::file_size(scratch.dump_path("rank00000.0.titan"));
    MESSAGE("full ring: ", bytes, " bytes in ", milliseconds, " ms");
    CHECK(bytes < (2 << 20));
    CHECK(milliseconds < 300);
    auto dump = read_dump(scratch.dump_path("rank00000.0.titan"));
    CHECK(dump.complete);
    const auto* first = reinterpret_cast<const format::CollectiveEntry*>(dump.ring.data() + format::kHeaderBytes);
    CHECK(first[16383].slot_sequence == 2 * 16383 + 2);
}
