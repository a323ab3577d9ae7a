// A text for people that keeps its facts as values: programs take them from here and need not read English.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "run.h"

namespace titan::analyzer {

struct RanksFact {
    std::vector<int> ranks;  // global, sorted
};
struct CommunicatorFact {
    uint32_t communicator = kNoIndex;  // index in Run::communicators
};
struct CallFact {
    uint32_t communicator = kNoIndex;
    std::string op;
    uint64_t sequence = kNoSequence;
};
struct DurationFact {
    int64_t duration_ns = 0;
};
using Fact = std::variant<RanksFact, CommunicatorFact, CallFact, DurationFact>;

class Sentence {
  public:
    struct Part {
        std::string words;
        std::optional<Fact> fact;
    };

    Sentence() = default;
    Sentence(std::string words) {
        *this += Part{std::move(words), std::nullopt};
    }                                                              // NOLINT(google-explicit-constructor)
    Sentence(const char* words) : Sentence(std::string(words)) {}  // NOLINT(google-explicit-constructor)
    Sentence(std::string words, Fact fact) { *this += Part{std::move(words), std::move(fact)}; }

    std::string text() const;
    const std::vector<Part>& parts() const { return parts_; }
    bool empty() const { return parts_.empty(); }
    friend bool operator==(const Sentence& a, const Sentence& b) { return a.text() == b.text(); }
    // The fact in a part; null if it has none of that type.
    template <typename T>
    const T* fact(size_t part) const {
        return parts_[part].fact ? std::get_if<T>(&*parts_[part].fact) : nullptr;
    }

    Sentence& operator+=(Part part);
    Sentence& operator+=(const Sentence& more);
    // Other words for the fact of a part.
    void reword(size_t part, std::string words) { parts_[part].words = std::move(words); }

  private:
    std::vector<Part> parts_;
};

std::vector<std::string> texts_of(const std::vector<Sentence>& sentences);

// "rank 3", "ranks 0-2,5".
Sentence ranks_fact(std::vector<int> ranks);
Sentence rank_fact(int rank);
// "4.1 s".
Sentence duration_fact(int64_t duration_ns);
// "dp:0".
Sentence communicator_fact(const Run& run, uint32_t communicator);
// "all_reduce #41 on dp:0": the call, then its communicator.
Sentence call_fact(const Run& run, uint32_t communicator, OpKind kind, uint64_t sequence);

namespace sentence_detail {

// The text before the next replacement field of a pattern, and the field itself: "{}", "{:.0f}".
struct Field {
    std::string_view before;
    std::string_view field;
};
Field take_field(std::string_view& pattern);
// Adds words of a pattern. "[waits|wait]" is the form that goes with the number of ranks that are named last before it.
void add_words(Sentence& sentence, std::string_view words);

template <typename T>
Sentence words_of(std::string_view field, const T& value) {
    if constexpr (std::is_same_v<T, Sentence>) {
        return value;
    } else {
        return fmt::vformat(field, fmt::make_format_args(value));
    }
}

template <typename T>
void add_field(Sentence& sentence, std::string_view& pattern, const T& value) {
    const Field next = take_field(pattern);
    add_words(sentence, next.before);
    sentence += words_of(next.field, value);
}

}  // namespace sentence_detail

// Like fmt::format, but keeps the facts of arguments that are sentences. Fields take the arguments in order; "{{" is
// not supported. Verbs and pronouns agree with the ranks before them: "{} [waits|wait] for {}".
template <typename... Args>
[[nodiscard]] Sentence phrase(fmt::format_string<const Args&...> pattern, const Args&... args) {
    const fmt::string_view whole = pattern;
    std::string_view rest(whole.data(), whole.size());
    Sentence sentence;
    (sentence_detail::add_field(sentence, rest, args), ...);
    sentence_detail::add_words(sentence, rest);
    return sentence;
}

}  // namespace titan::analyzer

template <>
struct fmt::formatter<titan::analyzer::Sentence> : fmt::formatter<std::string_view> {
    template <typename Context>
    auto format(const titan::analyzer::Sentence& sentence, Context& context) const {
        return fmt::formatter<std::string_view>::format(std::string_view(sentence.text()), context);
    }
};
