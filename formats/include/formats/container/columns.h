// Rows column by column, of small numbers: one description for both ways, over a packer of packed.h or PackedBytes.
#pragma once

#include <cstdint>

#include "formats/container/packed_number.h"

namespace titan::format {

// A number near another one, or 0 for none.
template <typename Coder, typename T>
void code_near(Coder& coder, T& value, uint64_t other) {
    uint64_t coded = value == 0 ? 0 : zigzag(static_cast<uint64_t>(value) - other) + 1;
    coder.number(coded);
    value = coded == 0 ? 0 : static_cast<T>(other + unzigzag(coded - 1));
}

// A column whose numbers rise.
template <typename Row, typename T>
struct Rising {
    T Row::*member;
};
template <typename Row, typename T>
Rising(T Row::*) -> Rising<Row, T>;

// A column of times that lie near another of the same row; 0 stays 0.
template <typename Row, typename T>
struct Near {
    T Row::*member;
    T Row::*base;
};
template <typename Row, typename T>
Near(T Row::*, T Row::*) -> Near<Row, T>;

template <typename Coder, typename List, typename Row, typename T>
void code_column(Coder& coder, List& list, T Row::*member) {
    for (Row& row : list) {
        coder.number(row.*member);
    }
}
template <typename Coder, typename List, typename Row, typename T>
void code_column(Coder& coder, List& list, const Rising<Row, T>& rising) {
    uint64_t before = 0;
    for (Row& row : list) {
        coder.delta(row.*rising.member, before);
    }
}
template <typename Coder, typename List, typename Row, typename T>
void code_column(Coder& coder, List& list, const Near<Row, T>& near) {
    for (Row& row : list) {
        code_near(coder, row.*near.member, static_cast<uint64_t>(row.*near.base));
    }
}

template <typename Coder, typename List, typename... Columns>
void code_columns(Coder& coder, List& list, const Columns&... columns) {
    (code_column(coder, list, columns), ...);
}

}  // namespace titan::format
