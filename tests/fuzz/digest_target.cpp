// Any bytes as a digest: the container, the packed processes in it, then the analysis.
#include "analysis.h"
#include "read_digest.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    auto digest = analyzer::read_digest_file(path_with(file));
    if (!digest) {
        return digest.error().text();
    }
    const size_t processes = digest->processes.size();
    if (processes != 0) {
        analyze(std::move(digest->processes));
    }
    return "read: " + std::to_string(processes) + " processes" +
           (digest->problems.empty() ? "" : "; " + digest->problems.front());
}

bool fuzz::seal(Bytes& file) { return seal_container(file); }
