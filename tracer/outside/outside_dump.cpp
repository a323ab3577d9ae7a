#include <cerrno>
#include <memory>

#include "base/clock.h"
#include "dump_files.h"
#include "formats/container/dump_writer.h"
#include "tracer/outside.h"

namespace titan::tracer {
namespace {

std::string write_to(const OutsideDump& dump, bool opened, DumpFile& file) {
    if (!opened) {
        return {};
    }
    std::vector<const char*> variables;
    for (const std::string& variable : dump.environment) {
        variables.push_back(variable.c_str());
    }
    variables.push_back(nullptr);
    std::vector<char> environment(kEnvironmentBytes);
    write_environment(environment.data(), environment.size(), variables.data());
    const size_t workspace_bytes = format::section_workspace_bytes();
    const auto workspace = std::make_unique<uint64_t[]>(workspace_bytes / sizeof(uint64_t) + 1);
    std::vector<char> meta(kMetaBytes);
    DumpContent content{
        .meta = {.number = 0,
                 .reason = format::DumpReason::kCollected,
                 .detail = dump.detail.c_str(),
                 .requested_by_rank = -1,
                 .realtime_ns = dump.realtime_ns,
                 .ticks = dump.ticks,
                 .saved_by_rank = -1,
                 .process_alive = dump.process_alive,
                 .environment = environment.data(),
                 .processors = dump.threads_of != 0 ? read_processors(dump.threads_of, {}) : ProcessorUse{},
                 .machine = read_machine(),
                 .halt = dump.halt.c_str()},
        .image = dump.image.data(),
        .image_bytes = dump.image.size(),
        .stacks = dump.stacks};
    const DumpRoom room{reinterpret_cast<char*>(workspace.get()), workspace_bytes, meta.data()};
    return write_dump_file(file, content, room, file.next_number(), dump.keep, EvidenceNumbers()) ? file.path()
                                                                                                  : std::string();
}

DumpOwner owner_of(const OutsideDump& dump) { return {dump.run.c_str(), dump.attempt, dump.rank, dump.pid}; }

}  // namespace

std::string write_outside_dump(const OutsideDump& dump, const std::string& directory) {
    DumpFile file;
    const bool opened = file.open_in(directory.c_str(), owner_of(dump));
    return write_to(dump, opened, file);
}

std::string write_outside_dump_to_fallback(const OutsideDump& dump) {
    DumpFile file;
    const bool opened = file.open_fallback(temporary_directory(), owner_of(dump));
    return write_to(dump, opened, file);
}

}  // namespace titan::tracer
