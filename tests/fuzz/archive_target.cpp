// Any bytes as an archive of Flight Recorder dumps.
#include "analyzer/archive.h"
#include "analyzer/flight_recorder.h"
#include "target.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    auto archive = analyzer::Archive::open(std::as_bytes(file));
    if (!archive) {
        return archive.error().text();
    }
    static analyzer::FlightRecorderScratch& scratch = *new analyzer::FlightRecorderScratch;
    analyzer::GroupRanks groups;
    std::vector<analyzer::Process> processes;
    std::vector<std::string> problems;
    analyzer::load_archive("job.tar", *archive, scratch, groups, processes, problems);
    return problems.empty() ? "read: " + std::to_string(processes.size()) + " processes" : problems.front();
}

bool fuzz::seal(Bytes&) { return false; }
