// Perfetto's own format: a protobuf message `Trace`, packet by packet. Names are written once and then by number.
// Source of message and field numbers: protos/perfetto/trace/ of google/perfetto (v58); tests/e2e/test_timeline.py
// reads what is written here with the definitions that Perfetto publishes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>

#include "trace_format.h"

namespace titan::analyzer {

class PerfettoFormat : public TraceFormat {
  public:
    explicit PerfettoFormat(Write write);

    void process(uint64_t id, std::string_view name) override;
    void track(const TraceTrack& track) override;
    void encode(const TraceDetails& details, std::string& into) override;
    void begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded) override;
    void end(const TraceTrack& track, int64_t at_ns) override;
    void instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded) override;
    void value(const TraceTrack& track, int64_t at_ns, double value) override;
    void finish() override {}

  private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
    };
    // Texts that were written, and their numbers from 1.
    using Interned = std::unordered_map<std::string, uint64_t, Hash, std::equal_to<>>;

    uint64_t number_of(Interned& interned, uint32_t field, std::string_view text);
    void event(const TraceTrack& track, int64_t at_ns, int32_t type, std::string_view encoded);
    void write_packet();

    Write write_;
    std::string packet_, message_, inner_, framed_;
    Interned names_, argument_names_, texts_;
    bool clock_written_ = false;
};

}  // namespace titan::analyzer
