// What a timeline is written as. Times are ns since 1970 on the clock that all hosts are aligned to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
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
class TraceFormat {
  public:
    using Write = std::function<void(std::string_view bytes)>;

    virtual ~TraceFormat() = default;
    virtual void process(uint64_t id, std::string_view name) = 0;
    virtual void track(const TraceTrack& track) = 0;
    // Appends the bytes that begin() and instant() take.
    virtual void encode(const TraceDetails& details, std::string& into) = 0;
    virtual void begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded) = 0;
    virtual void end(const TraceTrack& track, int64_t at_ns) = 0;
    virtual void instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded) = 0;
    virtual void value(const TraceTrack& track, int64_t at_ns, double value) = 0;
    virtual void finish() = 0;
};

}  // namespace titan::analyzer
