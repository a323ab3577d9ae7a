// Labels that the tracer itself gives a run: the user's, and the commit of the program.
#include "run_labels.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scratch.h"

using namespace titan;
using namespace titan::tracer;
using titan::test::Scratch;
namespace fs = std::filesystem;

namespace {

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

struct Repository {
    Scratch scratch;
    std::string root = scratch.path("repository");

    void write(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + "/" + path).parent_path());
        std::ofstream(root + "/" + path) << text;
    }

    // What a session that begins there gets.
    std::map<std::string, std::string> labels(const std::string& directory, const char* told = "") const {
        fs::create_directories(root + "/" + directory);
        const std::unique_ptr<Session, void (*)(Session*)> session(static_cast<Session*>(calloc(1, sizeof(Session))),
                                                                   [](Session* done) { free(done); });
        std::vector<format::StringRecord> texts(1024);
        std::vector<char> heap(64 << 10);
        std::vector<format::LabelRecord> rows(kLabelRows);
        std::vector<format::MarkerEntry> markers(64);
        format::RegionCursor cursor{};
        format::RegionCursor marker_cursor{};
        const auto header = std::make_unique<format::RingHeader>();
        uint64_t dropped = 0;
        session->header = header.get();
        session->markers = Ring<format::MarkerEntry>(markers.data(), markers.size(), marker_cursor);
        session->strings = StringTable(texts.data(), texts.size(), heap.data(), heap.size(), cursor, dropped);
        session->labels = Labels(rows.data(), session->labels_used, dropped);
        snprintf(session->config.labels, sizeof(session->config.labels), "%s", told);
        label_run(*session);
        label_commit(*session, (root + "/" + directory).c_str());
        std::map<std::string, std::string> found;
        for (const format::LabelRecord& row : rows) {
            size_t key_length = 0;
            size_t text_length = 0;
            const char* const key = session->strings.text_of(static_cast<uint32_t>(row.key), key_length);
            const char* const text = session->strings.text_of(row.text, text_length);
            if (key != nullptr) {
                found[std::string(key, key_length)] = text == nullptr ? "" : std::string(text, text_length);
            }
        }
        CHECK(session->markers.head() == found.size());  // a journal is made of markers
        return found;
    }
};

using Told = std::map<std::string, std::string>;

}  // namespace

TEST_CASE("the commit of the repository that the program starts in, by its branch or by itself") {
    Repository repository;
    repository.write(".git/HEAD", "ref: refs/heads/main\n");
    repository.write(".git/refs/heads/main", kCommit + "\n");
    CHECK(repository.labels("") == Told{{"git_sha", kCommit}});
    CHECK(repository.labels("train/configs") == Told{{"git_sha", kCommit}});
    repository.write(".git/HEAD", kCommit + "\n");
    CHECK(repository.labels("train") == Told{{"git_sha", kCommit}});
}

TEST_CASE("the commit of a branch that is packed") {
    Repository repository;
    repository.write(".git/HEAD", "ref: refs/heads/main\n");
    std::string packed = "# pack-refs with: peeled fully-peeled sorted\n";
    for (int i = 0; i < 500; ++i) {
        packed +=
            std::string(40, 'a') + " refs/heads/branch-" + std::to_string(i) + "\n^" + std::string(40, 'b') + "\n";
    }
    packed += std::string(40, 'c') + " refs/heads/" + std::string(9000, 'x') + "\n";
    repository.write(".git/packed-refs", packed + std::string(40, 'd') + " refs/heads/main2\n");
    CHECK(repository.labels("").empty());
    repository.write(".git/packed-refs", packed + kCommit + " refs/heads/main\n");
    CHECK(repository.labels("") == Told{{"git_sha", kCommit}});
    repository.write(".git/packed-refs", packed + kCommit + " refs/heads/main");  // cut off
    CHECK(repository.labels("").empty());
}

TEST_CASE("no commit is made up") {
    Repository repository;
    for (const char* head : {"", "ref: ", "ref: refs/heads/none\n", "ref: refs/../../secret\n", "ref: /etc/hostname\n",
                             "0123456789abcdef\n", "0123456789ABCDEF0123456789ABCDEF01234567\n"}) {
        repository.write(".git/HEAD", head);
        repository.write("secret", kCommit + "\n");
        CHECK(repository.labels("").empty());
    }
}

TEST_CASE("what the user says holds") {
    Repository repository;
    repository.write(".git/HEAD", kCommit + "\n");
    CHECK(repository.labels("", "git_sha=mine,application=llama,note=a=b,empty=") ==
          Told{{"git_sha", "mine"}, {"application", "llama"}, {"note", "a=b"}, {"empty", ""}});
}
