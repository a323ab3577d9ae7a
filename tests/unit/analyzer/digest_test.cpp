// Digests on disk: the same verdict as from the dumps, and clear words about what is damaged.
#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <span>

#include "diagnose.h"
#include "digests.h"
#include "formats/container/digest_file.h"
#include "formats/container/dump_reader.h"
#include "formats/container/packed.h"
#include "host/file_bytes.h"
#include "load_run.h"
#include "played.h"
#include "says.h"
#include "slow_causes.h"
#include "temporary_directory.h"
#include "timing.h"
#include "timing_job.h"

using namespace titan::test;
using namespace titan::analyzer;
using titan::format::DigestBuilder;
using titan::format::DigestSection;
namespace files = std::filesystem;

namespace {

struct Place : TemporaryDirectory {
    std::string dumps() const { return path + "/dumps"; }
    std::string digests() const { return path + "/digests"; }
};

LoadOptions options_for(std::vector<std::string> paths) {
    LoadOptions options;
    options.paths = std::move(paths);
    return options;
}

std::string report_on(std::vector<std::string> paths) {
    const auto run = load_run(options_for(std::move(paths)));
    REQUIRE(run);
    return json_report(*run, diagnose(*run));
}

DigestResult digest(const std::string& dumps, const std::string& into) {
    DigestOptions options;
    options.load = options_for({dumps});
    options.into = into;
    const auto result = write_digests(options);
    REQUIRE(result);
    return *result;
}

std::vector<std::byte> bytes_of(const std::string& path) {
    const auto file = titan::OpenFile::open(path);
    REQUIRE(file);
    return *file->read_all();
}

void overwrite(const std::string& path, const std::vector<std::byte>& bytes) { titan::synth::write_file(path, bytes); }

std::string error_of(const std::string& path) {
    const auto read = read_digest_file(path);
    return read ? "" : read.error().text();
}

}  // namespace

TEST_CASE("digests give the report of the dumps, one file for each host, for its owner only") {
    Place place;
    Scenario job = job_with_a_sleeper(16, 5);
    job.write(place.dumps(), {7});
    files::resize_file(place.dumps() + "/synth/0/rank00002.0.titan", 30);
    const DigestResult result = digest(place.dumps(), place.digests());
    CHECK(result.written.size() == 2);
    CHECK(result.processes == 14);
    CHECK(result.problems.size() == 1);
    for (const std::string& path : result.written) {
        struct stat status {};
        REQUIRE(::stat(path.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
        CHECK(says(path, "/synth/0/node-"));
    }
    CHECK(report_on({place.digests()}) == report_on({place.dumps()}));
    // Digests of digests, and digests beside the dumps they were made of.
    digest(place.digests(), place.path + "/again");
    CHECK(report_on({place.path + "/again"}) == report_on({place.dumps()}));
    CHECK(says(report_on({place.dumps(), place.digests()}), "never called all_gather #9"));
}

TEST_CASE("a node takes the records of its own host") {
    Place place;
    char host[64] = {};
    REQUIRE(::gethostname(host, sizeof(host) - 1) == 0);
    Scenario job = job_with_a_sleeper(16, 5);
    for (int rank = 4; rank < 12; ++rank) {
        std::memset(job.ring(rank).header().host, 0, sizeof(job.ring(rank).header().host));
        std::memcpy(job.ring(rank).header().host, host, std::strlen(host));
    }
    job.write(place.dumps());
    DigestOptions options;
    options.load = options_for({place.dumps()});
    options.into = place.digests();
    options.only_this_node = true;
    const auto result = write_digests(options);
    REQUIRE(result);
    CHECK(result->processes == 8);
    const auto run = load_run(options_for({place.digests()}));
    REQUIRE(run);
    CHECK(run->ranks == ranks({4, 5, 6, 7, 8, 9, 10, 11}));
    // None of this host is no error: it must not end the work of other nodes.
    files::remove_all(place.dumps());
    files::remove_all(place.digests());
    job_with_a_sleeper(4, 1).write(place.dumps());
    const auto none = write_digests(options);
    REQUIRE(none);
    CHECK(none->written.empty());
}

TEST_CASE("of a rank in several digests and dumps the newest counts") {
    Place place;
    job_with_a_sleeper(4, 1).write(place.dumps());
    digest(place.dumps(), place.digests());
    ScenarioOptions later;
    later.hang_s = 60;
    Scenario job = job_with_a_sleeper(4, 1, later);
    job.write(place.path + "/later", {0, 3});
    const auto run = load_run(options_for({place.digests(), place.path + "/later"}));
    REQUIRE(run);
    REQUIRE(run->processes.size() == 4);
    CHECK(run->processes[0].source.is_digest);
    CHECK_FALSE(run->processes[1].source.is_digest);
    CHECK_FALSE(run->processes[2].source.is_digest);
    CHECK(run->processes[3].source.is_digest);
}

TEST_CASE("damaged, foreign and newer digests are told in clear words") {
    Place place;
    job_with_a_sleeper(4, 1).write(place.dumps());
    const std::string path = digest(place.dumps(), place.digests()).written.front();
    const std::vector<std::byte> whole = bytes_of(path);

    std::vector<std::byte> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(whole.size() * 2 / 3));
    overwrite(path, cut);
    auto read = read_digest_file(path);
    REQUIRE(read);
    CHECK(read->processes.size() < 4);
    CHECK_FALSE(read->processes.empty());
    REQUIRE_FALSE(read->problems.empty());
    CHECK(says(read->problems.back(), "truncated"));

    std::vector<std::byte> flipped = whole;
    flipped[whole.size() / 2] ^= std::byte{0x10};
    overwrite(path, flipped);
    read = read_digest_file(path);
    REQUIRE(read);
    CHECK(read->processes.size() == 3);
    CHECK(says(read->problems.back(), "damaged"));

    overwrite(path, {whole.begin(), whole.begin() + 10});
    CHECK(says(error_of(path), "truncated"));

    std::vector<std::byte> foreign = whole;
    std::reverse(foreign.begin(), foreign.begin() + 8);
    overwrite(path, foreign);
    CHECK(says(error_of(path), "other byte order"));

    std::vector<std::byte> newer = whole;
    newer[8] = std::byte{9};
    overwrite(path, newer);
    CHECK(says(error_of(path), "digest format 9.0 is not the 1.0"));

    std::vector<std::byte> other = whole;
    other[0] = std::byte{'x'};
    overwrite(path, other);
    CHECK(says(error_of(path), "not a titantrace digest"));
}

TEST_CASE("a tag of a newer digest is skipped, a missing one is empty") {
    Scenario job = job_with_a_sleeper(4, 1);
    Run run = run_of(job);
    const std::vector<std::byte> whole = pack_process(run.processes[0]);
    titan::format::Packer newer;
    newer.field(900, [](titan::format::Packer& a) { a.number(uint64_t{1}); });
    std::vector<std::byte> bytes = newer.bytes();
    bytes.insert(bytes.end(), whole.begin(), whole.end());
    const auto read = unpack_process(bytes);
    REQUIRE(read);
    CHECK(pack_process(*read) == whole);
}

TEST_CASE("a digest tells of slow steps what the dumps tell, and refuses an order that leads out of its list") {
    titan::synth::TimedOptions options;
    options.layers = 6;
    options.overlap = true;
    options.fault.kind = titan::synth::TimedFault::kSlowKernels;
    options.fault.rank = 2;
    titan::synth::TimedJob job(options);
    const Run run = run_of(job);
    Run digested = run;
    for (Process& process : digested.processes) {
        const auto read = unpack_process(pack_process(process));
        REQUIRE(read);
        process.step_streams = read->step_streams;
        CHECK(read->step_streams.size() == 32);
        CHECK(pack_process(*read) == pack_process(process));
    }
    const SlowCauses of_dumps = slow_causes(run, analyze_timing(run));
    const SlowCauses of_digest = slow_causes(digested, analyze_timing(digested));
    REQUIRE(!of_dumps.causes.empty());
    REQUIRE(of_digest.causes.size() == of_dumps.causes.size());
    CHECK(of_digest.causes[0].ranks == of_dumps.causes[0].ranks);
    CHECK(of_digest.causes[0].without_ns() == of_dumps.causes[0].without_ns());

    const auto refuses = [&](auto&& damage) {
        Process process = run.processes[0];
        damage(process.step_streams[3]);
        const auto read = unpack_process(pack_process(process));
        return !read && says(read.error().text(), "work of streams that waits for what is missing");
    };
    CHECK(refuses([](StreamPiece& piece) { piece.waits_for = 33; }));
    CHECK(refuses([](StreamPiece& piece) { piece.and_for = UINT16_MAX; }));
    CHECK(refuses([&](StreamPiece& piece) { piece.row = static_cast<uint32_t>(run.processes[0].members.size()); }));
    CHECK_FALSE(refuses([](StreamPiece& piece) { piece.waits_for = 32; }));
}

TEST_CASE("a section that claims or unpacks to more than the limit is refused") {
    std::vector<std::byte> huge(titan::format::kMaxDigestSectionBytes + 1);
    CHECK_FALSE(DigestBuilder().add(DigestSection::kProcess, huge));
    DigestBuilder builder;
    REQUIRE(builder.add(DigestSection::kProcess, std::span(huge).first(size_t{1} << 20)));
    std::vector<std::byte> file = builder.finish();
    // The claim is raised over the limit, and the header sealed again.
    titan::format::SectionHeader section{};
    std::byte* place = file.data() + sizeof(titan::format::DigestHeader);
    std::memcpy(&section, place, sizeof(section));
    section.raw_bytes = uint64_t{1} << 62;
    section.check =
        titan::fnv1a64(reinterpret_cast<const unsigned char*>(&section), offsetof(titan::format::SectionHeader, check));
    std::memcpy(place, &section, sizeof(section));
    const auto problems =
        titan::format::read_digest(file, [](DigestSection, std::span<const std::byte>) { FAIL("unpacked"); });
    REQUIRE(problems);
    REQUIRE(problems->size() == 1);
    CHECK(says(problems->front(), "over the limit"));
}

TEST_CASE("no prefix and no changed byte of a packed process is taken for more than it is") {
    Scenario job = job_with_a_sleeper(4, 1);
    Run run = run_of(job);
    condense(run.processes[0], kTightLimits);
    const std::vector<std::byte> whole = pack_process(run.processes[0]);
    for (size_t size = 0; size < whole.size(); ++size) {
        const auto read = unpack_process(std::span(whole).first(size));
        CHECK((!read || read->entries.size() <= run.processes[0].entries.size()));
    }
    for (size_t place = 0; place < whole.size(); ++place) {
        std::vector<std::byte> changed = whole;
        changed[place] ^= std::byte{0xFF};
        const auto read = unpack_process(changed);
        CHECK((!read || read->history.size() < 100'000));
    }
}

TEST_CASE("the head of a dump tells its host") {
    Place place;
    job_with_a_sleeper(4, 1).write(place.dumps());
    const auto file = titan::OpenFile::open(place.dumps() + "/synth/0/rank00003.0.titan");
    REQUIRE(file);
    const auto header = titan::format::read_ring_header(*file);
    REQUIRE(header);
    CHECK(titan::format::fixed_text(header->host) == "node-0");
    CHECK(header->rank == 3);
}

TEST_CASE("files: what a process of the same id left behind keeps none from being written") {
    const Place place;
    const std::string path = place.path + "/report.html";
    std::ofstream(path + ".tmp" + std::to_string(::getpid())) << "left by a process of another container";
    const std::string text = "new";
    CHECK_FALSE(titan::write_private_file(path, std::as_bytes(std::span(text))));
    struct stat status {};
    REQUIRE(::stat(path.c_str(), &status) == 0);
    CHECK((status.st_mode & 0777) == 0600);
    CHECK(status.st_size == 3);
}
