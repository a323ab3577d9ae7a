#include "tell_of_nan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "job.h"
#include "log.h"

namespace titan::tracer {
namespace {

using format::MarkerEntry;

constinit uint64_t next_marker = 0;
constinit bool is_told = false;

bool is_nan(const MarkerEntry& marker) {
    return marker.kind == format::MarkerKind::kMetric && std::isnan(std::bit_cast<double>(marker.value));
}

void tell(const Session& session, const MarkerEntry& marker) {
    size_t length = 0;
    const char* const bytes = session.strings.text_of(marker.name, length);
    if (bytes == nullptr || !first_to_tell_of_nan()) {
        return;
    }
    char name[kMaxStringBytes + 1] = {};
    std::memcpy(name, bytes, std::min(length, kMaxStringBytes));
    if (marker.step == format::kNoStep) {
        log_line("metric %s is nan", name);
    } else {
        log_line("metric %s is nan in step %ld", name, static_cast<long>(marker.step));
    }
}

}  // namespace

void tell_of_nan(Session& session) {
    if (is_told) {
        return;
    }
    session.markers.visit_since(next_marker, [&session](const MarkerEntry& marker) {
        is_told = is_nan(marker);
        if (is_told) {
            tell(session, marker);
        }
        return !is_told;
    });
}

void forget_nan() {
    next_marker = 0;
    is_told = false;
}

}  // namespace titan::tracer
