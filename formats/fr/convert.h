// Typed reads that convert a tree into plain values; a failure says where it happened.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "formats/fr/fr_dump.h"
#include "text_pool.h"

namespace titan::format::fr {

class Converter {
  public:
    Converter(const Tree& tree, size_t file_bytes, Dump& dump)
        : tree_(tree), dump_(dump), texts_(dump.texts), budget_(file_bytes * kVisitsPerByte + kFreeVisits) {}

    // The reason of the first failure, without its place.
    const std::string& failure() const { return failure_; }

  protected:
    bool fail(std::string reason) {
        failure_ = std::move(reason);
        return false;
    }
    bool wrong(const Value& value, const char* wanted) {
        return fail(fmt::format("{} where {} belongs", name_of(value.kind), wanted));
    }

    // Values may be shared, so a small file can mean endless work.
    bool visit(size_t values) {
        if (values > budget_) {
            return fail("it means more values than its size can hold");
        }
        budget_ -= values;
        return true;
    }

    bool number(const Value& value, int64_t& into) {
        if (value.kind == Kind::kInt) {
            into = value.integer;
            return true;
        }
        if (value.kind == Kind::kNone) {
            return true;
        }
        // The JSON form and some writers quote numbers.
        const std::string_view text = value.kind == Kind::kText ? tree_.text(value) : std::string_view();
        int64_t parsed = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
        if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
            return wrong(value, "a number of 64 bits");
        }
        into = parsed;
        return true;
    }

    bool time(const Value& value, int64_t& into) {
        if (!number(value, into)) {
            return false;
        }
        if (into > kLatestNs) {
            return fail("a time after the year 2116");
        }
        return into >= 0 || fail("a time before 1970");
    }

    bool fraction(const Value& value, double& into) {
        if (value.kind == Kind::kFloat) {
            into = value.real;
        } else if (value.kind == Kind::kInt) {
            into = static_cast<double>(value.integer);
        } else if (value.kind != Kind::kNone) {
            return wrong(value, "a fraction");
        }
        return true;
    }

    bool flag(const Value& value, bool& into) {
        if (value.kind == Kind::kBool || value.kind == Kind::kInt) {
            into = value.integer != 0;
            return true;
        }
        return value.kind == Kind::kNone || wrong(value, "a boolean");
    }

    bool text(const Value& value, uint32_t& into) {
        if (value.kind == Kind::kNone) {
            return true;
        }
        if (value.kind != Kind::kText) {
            return wrong(value, "a text");
        }
        into = texts_.use(tree_.text(value));
        return true;
    }

    const Tree& tree_;
    Dump& dump_;
    TextPool texts_;

  private:
    static constexpr size_t kVisitsPerByte = 2;  // plain data without sharing has less than one
    static constexpr size_t kFreeVisits = 1 << 20;

    size_t budget_;
    std::string failure_;
};

}  // namespace titan::format::fr
