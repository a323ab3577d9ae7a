#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <memory>
#include <string>

#include "base/clock.h"
#include "base/process.h"
#include "ring_file.h"
#include "scratch.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::has;
using titan::test::list_dir;
using titan::test::rank_environment;
using titan::test::read_file;
using titan::test::run_child;
using titan::test::Scratch;
namespace fs = std::filesystem;
namespace format = titan::format;

namespace {

struct Made {
    std::unique_ptr<Config> config = std::make_unique<Config>();
    Identity identity{};
    std::unique_ptr<RingFile> file = std::make_unique<RingFile>();
    bool created = false;
};

Made make_ring() {
    Made made;
    load_config(*made.config);
    read_identity(*made.config, made.identity);
    made.created = create_ring_file(*made.config, made.identity, *made.file);
    return made;
}

struct Left {
    const char* run = "";
    int32_t attempt = 0;
    format::ProcessState state = format::ProcessState::kRunning;
    int32_t exit_status = -1;
};

// A ring of a process that is gone, last alive `age_s` seconds ago.
void plant_dead_ring(const Scratch& scratch, const std::string& name, uint64_t age_s, uint64_t bytes = 4096,
                     const Left& left = {}) {
    format::RingHeader header{};
    Made made;
    load_config(*made.config);
    read_identity(*made.config, made.identity);
    header.magic = format::kRingMagic;
    strcpy(header.run, left.run);
    header.attempt = left.attempt;
    header.state = left.state;
    header.exit_status_next = left.exit_status + 1;
    header.pid = 1;
    header.pid_start_ticks = 12345678901;
    header.pid_namespace = made.identity.pid_namespace;
    memcpy(header.boot_id, made.identity.boot_id, sizeof(header.boot_id));
    std::string path = scratch.ring_dir() + "/" + name;
    int fd = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    [[maybe_unused]] ssize_t written = ::write(fd, &header, sizeof(header));
    [[maybe_unused]] int cut = ftruncate(fd, static_cast<off_t>(bytes));
    timespec times[2]{};
    times[0].tv_sec = times[1].tv_sec = static_cast<time_t>(realtime_now_ns() / 1'000'000'000 - age_s);
    futimens(fd, times);
    close(fd);
}

}  // namespace

TEST_CASE("a ring file is whole, private and small enough") {
    Scratch scratch;
    int status = run_child(rank_environment(scratch, 3, 8), [&] {
        start_clock();
        Made made = make_ring();
        format::RingHeader& header = *made.file->header;
        struct stat file {};
        stat(made.file->path, &file);
        const format::RegionDescriptor* collectives = nullptr;
        format::RegionCursor* cursor = nullptr;
        char* slots = region_bytes(header, format::RegionKind::kCollectives, &collectives, &cursor);
        bool good = made.created && made.file->persistent && header.magic == format::kRingMagic && header.rank == 3 &&
                    header.world_size == 8 && header.file_bytes == made.file->bytes && made.file->bytes < (8 << 20) &&
                    static_cast<uint64_t>(file.st_size) == made.file->bytes && (file.st_mode & 0777) == 0600 &&
                    static_cast<uint64_t>(file.st_blocks) * 512 >= made.file->bytes && collectives != nullptr &&
                    collectives->count == 16384 && collectives->stride_bytes == sizeof(format::CollectiveEntry) &&
                    slots == reinterpret_cast<char*>(&header) + collectives->offset_bytes &&
                    cursor == &header.cursors[0] && header.first_anchor.realtime_ns != 0 &&
                    header.ticks_per_second != 0;
        unlink(made.file->path);
        return good && access(made.file->path, F_OK) != 0 ? 0 : 1;
    });
    CHECK(status == 0);
}

TEST_CASE("a planted link or an open directory is not used") {
    Scratch scratch;
    fs::create_directory(scratch.path("elsewhere"));
    SUBCASE("a symbolic link") { fs::create_symlink(scratch.path("elsewhere"), scratch.ring_dir()); }
    SUBCASE("a directory that others can enter") {
        fs::create_directory(scratch.ring_dir());
        chmod(scratch.ring_dir().c_str(), 0755);
    }
    SUBCASE("a file") { close(open(scratch.ring_dir().c_str(), O_CREAT | O_RDWR, 0600)); }
    int status = run_child(
        rank_environment(scratch, 0),
        [] {
            Made made = make_ring();
            bool in_tmp = std::string(made.file->path).starts_with("/tmp/titantrace-");
            unlink(made.file->path);
            return made.created && in_tmp ? 0 : 1;
        },
        scratch.path("errors"));
    CHECK(status == 0);
    CHECK(list_dir(scratch.path("elsewhere")).empty());
    CHECK(has(read_file(scratch.path("errors")), "is not used"));
}

TEST_CASE("a link in place of the ring's name is replaced, not followed") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    fs::create_directory(scratch.ring_dir());
    chmod(scratch.ring_dir().c_str(), 0700);
    int status = run_child(environment, [&] {
        std::string name = std::to_string(getpid()) + "-" + std::to_string(process_start_ticks(getpid())) + ".ring";
        fs::create_symlink(scratch.path("victim"), scratch.ring_dir() + "/" + name);
        Made made = make_ring();
        return made.created && made.file->persistent && !fs::is_symlink(made.file->path) ? 0 : 1;
    });
    CHECK(status == 0);
    CHECK_FALSE(fs::exists(scratch.path("victim")));
}

TEST_CASE("a small file system gets a small ring, a full one none, and nobody dies of SIGBUS") {
    Scratch scratch;
    int megabytes = 0;
    SUBCASE("small") { megabytes = 50; }
    SUBCASE("full") { megabytes = 2; }
    std::string options = "size=" + std::to_string(megabytes) + "m";
    if (mount("tmpfs", scratch.rings().c_str(), "tmpfs", 0, options.c_str()) != 0) {
        MESSAGE("skipped: mounting a tmpfs needs root");
        return;
    }
    int status = run_child(
        rank_environment(scratch, 0),
        [&] {
            start_clock();
            Made made = make_ring();
            memset(reinterpret_cast<char*>(made.file->header) + 4096, 1, made.file->bytes - 4096);
            bool there = std::string(made.file->path).starts_with(scratch.rings());
            uint64_t slots = made.file->header->regions[0].count;
            unlink(made.file->path);
            return megabytes == 50 ? (there && slots < 16384 ? 0 : 1) : (!there && slots == 16384 ? 0 : 2);
        },
        scratch.path("errors"));
    CHECK(list_dir(scratch.ring_dir()).empty());
    umount2(scratch.rings().c_str(), MNT_DETACH);
    CHECK(status == 0);
    CHECK(has(read_file(scratch.path("errors")), megabytes == 50 ? "little room" : "no space left"));
}

TEST_CASE("where room is short, samples of stacks are the first to go") {
    Scratch scratch;
    int status = run_child(
        rank_environment(scratch, 0),
        [] {
            start_clock();
            const auto samples_in = [](const Made& made) {
                return region_bytes(*made.file->header, format::RegionKind::kStackSamples, nullptr) != nullptr;
            };
            const Made without = make_ring();
            setenv("TITANTRACE_STACK_SAMPLES_S", "1", 1);
            const Made with = make_ring();
            const rlimit limit{without.file->bytes, without.file->bytes};
            setrlimit(RLIMIT_FSIZE, &limit);
            const Made small = make_ring();
            return !samples_in(without) && samples_in(with) && !samples_in(small) && small.file->persistent &&
                           small.file->bytes == without.file->bytes
                       ? 0
                       : 1;
        },
        scratch.path("errors"));
    CHECK(status == 0);
    CHECK(has(read_file(scratch.path("errors")), "16384 collectives"));
    CHECK(has(read_file(scratch.path("errors")), "and no samples of stacks"));
}

TEST_CASE("a limit on file sizes does not end the process") {
    Scratch scratch;
    int status = run_child(
        rank_environment(scratch, 0),
        [] {
            rlimit limit{1 << 20, 1 << 20};
            setrlimit(RLIMIT_FSIZE, &limit);
            Made made = make_ring();
            return made.created && !made.file->persistent ? 0 : 1;
        },
        scratch.path("errors"));
    CHECK(status == 0);
    CHECK(has(read_file(scratch.path("errors")), "will not survive kill -9"));
}

TEST_CASE("dead rings go when they are old or too many; everything else stays") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_RINGS_MIB"] = "256";
    environment["TITANTRACE_RINGS_DAYS"] = "1";
    CHECK(run_child(environment, [] { return make_ring().created ? 0 : 1; }) == 0);
    CHECK(list_dir(scratch.ring_dir()).size() == 1);
    std::string recent_dead = list_dir(scratch.ring_dir())[0];
    plant_dead_ring(scratch, "1-111.ring", 25 * 3600);
    plant_dead_ring(scratch, "1-112.ring", 23 * 3600);
    plant_dead_ring(scratch, "1-113.ring", 100, 200ull << 20);
    plant_dead_ring(scratch, "1-114.ring", 50, 200ull << 20);
    close(open((scratch.ring_dir() + "/notes.txt").c_str(), O_CREAT | O_RDWR, 0600));
    fs::create_symlink(scratch.path("x"), scratch.ring_dir() + "/1-115.ring");
    pid_t living = titan::test::start_child(
        environment,
        [] {
            Made made = make_ring();
            pause();
            return 0;
        },
        scratch.path("errors"));
    std::string living_name = std::to_string(living) + "-" + std::to_string(process_start_ticks(living)) + ".ring";
    CHECK(titan::test::eventually([&] { return fs::exists(scratch.ring_dir() + "/" + living_name); }));
    run_child(environment, [] { return make_ring().created ? 0 : 1; });
    CHECK(has(read_file(scratch.path("errors")), "removed 3 rings of processes that ended (200 MiB) from "));
    auto left = [&](const std::string& name) {
        return fs::exists(fs::symlink_status(scratch.ring_dir() + "/" + name));
    };
    CHECK(left(living_name));
    CHECK(left(recent_dead));
    CHECK_FALSE(left("1-111.ring"));
    CHECK_FALSE(left("1-112.ring"));  // the oldest, while all together are too big
    CHECK_FALSE(left("1-113.ring"));
    CHECK(left("1-114.ring"));
    CHECK(left("notes.txt"));
    CHECK(left("1-115.ring"));
    kill(living, SIGKILL);
    titan::test::wait_child(living);
}

TEST_CASE("of a restart loop the first attempt with a death and the newest one stay longest") {
    Scratch scratch;
    auto environment = rank_environment(scratch, 0);
    environment["TITANTRACE_RINGS_MIB"] = "100";
    fs::create_directory(scratch.ring_dir());
    chmod(scratch.ring_dir().c_str(), 0700);
    const auto plant = [&](int pid, uint64_t age_s, const Left& left) {
        plant_dead_ring(scratch, std::to_string(pid) + "-1.ring", age_s, 10 << 20, left);
    };
    using enum format::ProcessState;
    plant(100, 9000, {"other", 0, kRunning});
    plant(200, 8000, {"loop", 0, kExited, 0});  // before the first death
    plant(201, 7000, {"loop", 1, kRunning});    // and the rest of that attempt
    plant(202, 7000, {"loop", 1, kExited, 0});
    for (int attempt = 2; attempt < 20; ++attempt) {
        plant(210 + attempt, 6000 - static_cast<uint64_t>(attempt), {"loop", attempt, kExited, 1});
    }
    plant(300, 5, {"well", 0, kExited, 0});
    run_child(
        environment, [] { return make_ring().created ? 0 : 1; }, scratch.path("errors"));
    const auto there = [&](int pid) { return fs::exists(scratch.ring_dir() + "/" + std::to_string(pid) + "-1.ring"); };
    for (const int pid : {100, 201, 202, 229, 228, 227, 226, 225, 224, 223}) {
        CHECK_MESSAGE(there(pid), pid);
    }
    for (const int pid : {200, 212, 222, 300}) {
        CHECK_MESSAGE(!there(pid), pid);
    }
    CHECK(has(read_file(scratch.path("errors")), "removed 11 rings"));
}

TEST_CASE("rings of a job that ended well go at the next start, without a word") {
    Scratch scratch;
    fs::create_directory(scratch.ring_dir());
    chmod(scratch.ring_dir().c_str(), 0700);
    plant_dead_ring(scratch, "1-1.ring", 5, 4096, {"well", 0, format::ProcessState::kExited, 0});
    plant_dead_ring(scratch, "2-1.ring", 5, 4096, {"well", 0, format::ProcessState::kExited, -1});
    plant_dead_ring(scratch, "3-1.ring", 5, 4096, {"bad", 0, format::ProcessState::kExited, 0});
    plant_dead_ring(scratch, "4-1.ring", 5, 4096, {"bad", 0, format::ProcessState::kExited, 7});
    run_child(
        rank_environment(scratch, 0), [] { return make_ring().created ? 0 : 1; }, scratch.path("errors"));
    const auto there = [&](const char* name) { return fs::exists(scratch.ring_dir() + "/" + name); };
    CHECK((!there("1-1.ring") && !there("2-1.ring") && there("3-1.ring") && there("4-1.ring")));
    CHECK_FALSE(has(read_file(scratch.path("errors")), "removed"));
}
