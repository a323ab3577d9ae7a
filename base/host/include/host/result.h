// A value or the chain of causes why there is none. The outermost cause is said first:
// "rank00003.0.titan: section 2: bad checksum".
#pragma once

#include <string>
#include <utility>
#include <variant>

namespace titan {

class Error {
  public:
    explicit Error(std::string cause) : text_(std::move(cause)) {}

    // The same error seen from one level further out.
    Error within(const std::string& where) const { return Error(where + ": " + text_); }
    const std::string& text() const { return text_; }

  private:
    std::string text_;
};

template <typename T>
class [[nodiscard]] Result {
  public:
    Result(T value) : outcome_(std::move(value)) {}      // NOLINT: implicit on purpose, `return value;`
    Result(Error error) : outcome_(std::move(error)) {}  // NOLINT: implicit on purpose, `return Error("..");`

    explicit operator bool() const { return std::holds_alternative<T>(outcome_); }
    T& operator*() { return std::get<T>(outcome_); }
    const T& operator*() const { return std::get<T>(outcome_); }
    T* operator->() { return &std::get<T>(outcome_); }
    const T* operator->() const { return &std::get<T>(outcome_); }
    const Error& error() const { return std::get<Error>(outcome_); }

  private:
    std::variant<T, Error> outcome_;
};

}  // namespace titan
