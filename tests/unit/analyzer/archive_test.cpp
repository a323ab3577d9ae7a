// Dumps, rings and digests in archives: read in place, with the verdict of the files themselves.
#include <archive.h>
#include <archive_entry.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>

#include "diagnose.h"
#include "digests.h"
#include "host/file_bytes.h"
#include "load_run.h"
#include "played.h"
#include "show.h"
#include "temporary_directory.h"

using namespace titan::test;
using namespace titan::analyzer;
namespace files = std::filesystem;

namespace {

std::vector<std::byte> content_of(const files::path& path) {
    const auto file = titan::OpenFile::open(path.string());
    REQUIRE(file);
    return *file->read_all();
}

// All files below a directory, by the ending of the archive's name.
void pack(const std::string& directory, const std::string& into) {
    archive* out = archive_write_new();
    REQUIRE(archive_write_set_format_filter_by_ext(out, into.c_str()) == ARCHIVE_OK);
    REQUIRE(archive_write_open_filename(out, into.c_str()) == ARCHIVE_OK);
    for (const auto& item : files::recursive_directory_iterator(directory)) {
        if (!item.is_regular_file()) {
            continue;
        }
        const std::vector<std::byte> bytes = content_of(item.path());
        archive_entry* entry = archive_entry_new();
        archive_entry_set_pathname(entry, files::relative(item.path(), directory).c_str());
        archive_entry_set_size(entry, static_cast<int64_t>(bytes.size()));
        archive_entry_set_filetype(entry, AE_IFREG);
        archive_entry_set_perm(entry, 0600);
        archive_entry_set_mtime(entry, 1'795'000'001, 0);
        REQUIRE(archive_write_header(out, entry) == ARCHIVE_OK);
        REQUIRE(archive_write_data(out, bytes.data(), bytes.size()) == static_cast<la_ssize_t>(bytes.size()));
        archive_entry_free(entry);
    }
    REQUIRE(archive_write_close(out) == ARCHIVE_OK);
    archive_write_free(out);
}

Run loaded_from(const std::string& path) {
    LoadOptions options;
    options.paths = {path};
    auto run = load_run(options);
    REQUIRE(run);
    return std::move(*run);
}

std::string json_of(const std::string& path) {
    const Run run = loaded_from(path);
    return json_report(run, diagnose(run));
}

}  // namespace

TEST_CASE("dumps in an archive give the report of the dumps") {
    TemporaryDirectory place;
    job_with_a_sleeper(4, 1).write(place.path + "/dumps");
    const std::string wanted = json_of(place.path + "/dumps");
    CHECK(wanted.find("rank_not_arrived") != std::string::npos);
    for (const char* name : {"/job.tar.gz", "/job.tar", "/job.zip"}) {
        pack(place.path + "/dumps", place.path + name);
        CHECK(json_of(place.path + name) == wanted);
    }
    // In a directory they are found, too; and what reads the files once more finds the member.
    files::create_directory(place.path + "/sent");
    files::rename(place.path + "/job.tar.gz", place.path + "/sent/job.tar.gz");
    CHECK(json_of(place.path + "/sent") == wanted);
    std::string listed;
    ShowOptions options;
    options.ranks = {1};
    show(loaded_from(place.path + "/sent"), options, [&](const std::string& text) { listed += text; });
    CHECK(listed.find("all_gather") != std::string::npos);
}

TEST_CASE("rings and digests in an archive are read, and a damaged member is named") {
    TemporaryDirectory place;
    Scenario job = job_with_a_sleeper(4, 1);
    job.write(place.path + "/dumps");
    DigestOptions options;
    options.load.paths = {place.path + "/dumps"};
    options.into = place.path + "/digests";
    REQUIRE(write_digests(options));
    pack(place.path + "/digests", place.path + "/digests.zip");
    CHECK(json_of(place.path + "/digests.zip") == json_of(place.path + "/dumps"));
    for (int rank = 0; rank < 4; ++rank) {
        const auto bytes = job.ring(rank).bytes();
        titan::synth::write_file(place.path + "/rings/" + std::to_string(rank) + ".ring",
                                 std::vector<std::byte>(bytes.begin(), bytes.end()));
    }
    titan::synth::write_file(place.path + "/rings/4.ring", std::vector<std::byte>(5000, std::byte{7}));
    titan::synth::write_file(place.path + "/rings/rank00005.0.titan", std::vector<std::byte>(3, std::byte{7}));
    pack(place.path + "/rings", place.path + "/rings.tar.gz");
    const Run run = loaded_from(place.path + "/rings.tar.gz");
    CHECK(run.ranks == std::vector<int>{0, 1, 2, 3});
    const auto named = [&](const std::string& member) {
        return std::count_if(run.warnings.begin(), run.warnings.end(), [&](const Warning& warning) {
            return warning.summary.find("rings.tar.gz:" + member) != std::string::npos;
        });
    };
    CHECK(named("4.ring") == 1);
    CHECK(named("rank00005.0.titan") == 1);
    CHECK(run.processes.front().source.is_ring);
}
