// Perfetto's own format: a protobuf message `Trace`, packet by packet. Names are written once and then by number.
// Source of message and field numbers: protos/perfetto/trace/ of google/perfetto (v58); tests/e2e/test_timeline.py
// reads what is written here with the definitions that Perfetto publishes. Times are ns since 1970 on the clock that
// all hosts are aligned to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

namespace titan::analyzer {

struct TraceArgument {
    std::string_view name;
    std::variant<int64_t, double, std::string_view> value;
};

// What a slice or an instant is called, and tells when it is selected.
struct TraceDetails {
    std::string_view name;
    std::vector<TraceArgument> arguments;
    uint64_t flow = 0;  // slices of one flow are joined by arrows, 0 none
};

struct TraceTrack {
    uint64_t id = 0;  // unique in the trace, from 1
    uint64_t process = 0;
    std::string_view name;
    int32_t order = 0;     // among the tracks of the process
    bool counter = false;  // of values, not of slices
};

// Not thread-safe. A process comes before its tracks, a track before what lies on it. The slices of a track nest, and
// its begins and ends come in the order of time, as do its values, and its instants.
class PerfettoFormat {
  public:
    using Write = std::function<void(std::string_view bytes)>;

    explicit PerfettoFormat(Write write);

    void process(uint64_t id, std::string_view name);
    void track(const TraceTrack& track);
    // Appends the bytes that begin() and instant() take.
    void encode(const TraceDetails& details, std::string& into);
    void begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded);
    void end(const TraceTrack& track, int64_t at_ns);
    void instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded);
    void value(const TraceTrack& track, int64_t at_ns, double value);

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
