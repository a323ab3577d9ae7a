// Markers as columns of small numbers: most of what a marker holds follows from the one before it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/container/columns.h"
#include "formats/container/packed_number.h"
#include "formats/layout/ring_layout.h"

namespace titan::format {

// What is foretold of a marker by those before it. Both sides make the same.
class MarkerGuess {
  public:
    uint64_t begin_of(const MarkerEntry& end) const {
        const Begun& begun = begun_[end.span % kRows];
        return begun.span == end.span ? begun.ticks : end.ticks;
    }
    void note_begin(const MarkerEntry& begin) { begun_[begin.span % kRows] = {begin.span, begin.ticks}; }

  private:
    static constexpr size_t kRows = 256;
    struct Begun {
        uint32_t span = 0;
        uint64_t ticks = 0;
    };
    Begun begun_[kRows];
};

namespace marker_columns {

// Bits of a double: round numbers end in zeros, which are to be its high bits.
template <typename Coder>
void bits(Coder& coder, uint64_t& value) {
    uint64_t turned = __builtin_bswap64(value);
    coder.number(turned);
    value = __builtin_bswap64(turned);
}

inline bool numbers_itself(MarkerKind kind) { return kind == MarkerKind::kSpanBegin || kind == MarkerKind::kEvent; }

template <typename Coder>
void spans(Coder& coder, std::span<MarkerEntry> markers) {
    uint64_t newest = 0;
    for (MarkerEntry& marker : markers) {
        code_near(coder, marker.span, newest);
        newest = numbers_itself(marker.kind) ? marker.span : newest;
    }
}

template <typename Coder>
void values(Coder& coder, std::span<MarkerEntry> markers) {
    MarkerGuess guess;
    uint64_t step = 0;
    for (MarkerEntry& marker : markers) {
        uint64_t before = 0;
        switch (marker.kind) {
            case MarkerKind::kStep: coder.delta(marker.value, step); break;
            case MarkerKind::kSpanBegin:
                guess.note_begin(marker);
                code_near(coder, marker.value, marker.span);
                break;
            case MarkerKind::kSpanEnd:
                before = guess.begin_of(marker);
                coder.delta(marker.value, before);
                break;
            default: bits(coder, marker.value); break;
        }
    }
}

template <typename Coder>
void extras(Coder& coder, std::span<MarkerEntry> markers) {
    uint64_t relative = 0;
    for (MarkerEntry& marker : markers) {
        switch (marker.kind) {
            case MarkerKind::kStep: coder.delta(marker.extra, relative); break;
            case MarkerKind::kMetric: bits(coder, marker.extra); break;
            default: coder.number(marker.extra); break;
        }
    }
}

}  // namespace marker_columns

// All but their tickets, which are consecutive.
template <typename Coder>
void code_markers(Coder& coder, std::span<MarkerEntry> markers) {
    using namespace marker_columns;
    using M = MarkerEntry;
    code_columns(coder, markers, &M::kind, &M::depth, &M::detail, &M::name, &M::text, &M::site, Rising{&M::thread},
                 Rising{&M::step}, Rising{&M::ticks});
    spans(coder, markers);
    values(coder, markers);
    extras(coder, markers);
}

}  // namespace titan::format
