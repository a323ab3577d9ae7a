#include "base/seconds.h"

#include <string.h>

#include "base/text.h"

namespace titan {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kMaxSeconds = uint64_t{366} * 86'400;

}  // namespace

bool parse_seconds(const char* text, uint64_t& value_ns) {
    size_t whole_digits = strcspn(text, ".");
    uint64_t seconds = 0;
    if (!parse_u64(text, whole_digits, seconds) || seconds > kMaxSeconds) {
        return false;
    }
    uint64_t fraction_ns = 0;
    if (text[whole_digits] == '.') {
        uint64_t unit_ns = kSecondNs / 10;
        const char* digit = text + whole_digits + 1;
        if (*digit == '\0') {
            return false;
        }
        for (; *digit != '\0'; ++digit, unit_ns /= 10) {
            if (*digit < '0' || *digit > '9') {
                return false;
            }
            fraction_ns += static_cast<uint64_t>(*digit - '0') * unit_ns;
        }
    }
    value_ns = seconds * kSecondNs + fraction_ns;
    return true;
}

}  // namespace titan
