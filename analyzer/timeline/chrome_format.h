// The JSON that chrome://tracing defined, for other viewers: https://ui.perfetto.dev reads it as well.
#pragma once

#include <string>

#include "trace_format.h"

namespace titan::analyzer {

class ChromeFormat : public TraceFormat {
  public:
    explicit ChromeFormat(Write write);

    void process(uint64_t id, std::string_view name) override;
    void track(const TraceTrack& track) override;
    void encode(const TraceDetails& details, std::string& into) override;
    void begin(const TraceTrack& track, int64_t at_ns, std::string_view encoded) override;
    void end(const TraceTrack& track, int64_t at_ns) override;
    void instant(const TraceTrack& track, int64_t at_ns, std::string_view encoded) override;
    void value(const TraceTrack& track, int64_t at_ns, double value) override;
    void finish() override;

  private:
    void event(char phase, const TraceTrack& track, int64_t at_ns, std::string_view rest);

    Write write_;
    std::string line_;
    bool any_ = false;
};

}  // namespace titan::analyzer
