// Any bytes as a dump: the container, the meta section, the ring in it, then the analysis.
#include "analysis.h"
#include "condense.h"
#include "decode_process.h"
#include "formats/container/dump_reader.h"

using namespace titan;

std::string fuzz::read(std::span<const unsigned char> file) {
    static ImageBuffer& memory = *new ImageBuffer;
    const std::string path = path_with(file);
    (void)format::read_ring_header(*OpenFile::open(path));
    (void)format::read_dump_meta(std::as_bytes(file));
    const auto opened = analyzer::open_source(path, memory);
    if (!opened) {
        return opened.error().text();
    }
    std::vector<analyzer::Process> processes;
    processes.push_back(analyzer::decode_process(*opened));
    const size_t calls = processes[0].entries.size();
    analyzer::condense(processes[0], {.newest = 8, .newest_of_member = 2});
    analyze(std::move(processes));
    return "read: " + std::to_string(calls) + " calls" +
           (opened->problems.empty() ? "" : "; " + opened->problems.front());
}

bool fuzz::seal(Bytes& file) { return seal_container(file); }
