// The views of views/*.sql: a report each, in SQL. What its first lines say, as comments, is its meaning.
#pragma once

#include <span>
#include <string>

namespace titan::analyzer {

struct View {
    const char* name;
    const char* sql;
};

extern const std::span<const View> kViews;

std::string meaning_of(const View& view);

}  // namespace titan::analyzer
