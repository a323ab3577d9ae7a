// Opens a dump or ring: reads it, rebuilds the image, and says whether its process was alive at that moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump_meta.h"
#include "formats/container/dump_reader.h"
#include "formats/layout/step_sum.h"
#include "formats/ring/ring_image.h"
#include "host/file_bytes.h"
#include "host/image_buffer.h"
#include "host/result.h"
#include "run.h"

namespace titan::analyzer {

// The bytes of a dump or ring as an image, with what is known about the process at that moment.
struct OpenedSource {
    Source source;
    format::RingImage image;
    uint64_t now_ticks = 0;
    uint64_t seen_ticks = 0;  // newest sign of life; 0: newest_tick() tells
    Liveness liveness = Liveness::kUnknown;
    Halt halt = Halt::kNone;
    Processors processors;
    std::vector<std::pair<std::string, std::string>> environment;  // DumpMeta::environment
    std::vector<DumpedChild> children;
    uint64_t out_of_memory_kills = 0;
    std::vector<std::pair<std::string, std::string>> machine;  // DumpMeta::machine
    bool partial_recording = false;
    uint64_t launch_sample = 1;     // every n-th piece of stream work was recorded, 0: none; 1 also where nothing tells
    std::vector<std::byte> stacks;  // formats/layout/stacks_layout.h, empty: none
    std::vector<std::string> problems;
    // Sums of the calls in the newest steps of a journal, and the names of their communicators.
    std::vector<format::StepCalls> step_calls;
    std::map<uint64_t, std::string> communicator_names;
    format::DumpExtent extent =
        format::DumpExtent::kAll;  // kFrame: calls are left out, and `seen_ticks` is `now_ticks`
};

// The latest moment that the ring itself knows of.
uint64_t newest_tick(const format::RingImage& image);

// When a dump was made, and of which process it is.
struct DumpMoment {
    uint64_t realtime_ns = 0;  // 0 if unknown
    uint64_t ticks = 0;        // by the process's own clock, which nobody sets
    std::string process;       // empty: unknown
};

// A dump or ring that is opened once, whatever is asked of it. Not thread-safe.
class SourceFile {
  public:
    explicit SourceFile(std::string path) : path_(std::move(path)) {}

    // Reads only the head of the file, without unpacking. Empty if the head does not name it.
    std::optional<std::string> host();
    DumpMoment moment();
    Result<OpenedSource> read(ImageBuffer& memory, format::DumpExtent extent = format::DumpExtent::kAll);
    // Gives the descriptor back; the next question opens the file again.
    void close() { file_.reset(); }

  private:
    const Result<OpenFile>& file();

    std::string path_;
    std::unique_ptr<Result<OpenFile>> file_;
};

Result<OpenedSource> open_source(const std::string& path, ImageBuffer& memory);
// Once more, the file or the member of an archive that a process was loaded from.
Result<OpenedSource> open_source(const Source& source, ImageBuffer& memory);
// Opens the member of an archive that the source names.
Result<OpenedSource> open_source_bytes(Source source, std::span<const std::byte> bytes, ImageBuffer& memory);

}  // namespace titan::analyzer
