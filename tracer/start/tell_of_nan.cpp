#include "tell_of_nan.h"

#include <algorithm>
#include <cstring>

#include "job.h"
#include "log.h"

namespace titan::tracer {
namespace {

constinit bool is_told = false;

}  // namespace

void tell_of_nan(Session& session) {
    const uint32_t name = load_field(session.nan_metric);
    if (name == 0 || is_told) {
        return;
    }
    is_told = true;
    size_t length = 0;
    const char* const bytes = session.strings.text_of(name, length);
    if (bytes != nullptr && first_to_tell_of_nan()) {
        char text[kMaxStringBytes + 1] = {};
        std::memcpy(text, bytes, std::min(length, kMaxStringBytes));
        const auto step = static_cast<long>(load_field(session.nan_step));
        if (step == format::kNoStep) {
            log_line("metric %s is nan", text);
        } else {
            log_line("metric %s is nan in step %ld", text, step);
        }
    }
}

void forget_nan() { is_told = false; }

}  // namespace titan::tracer
