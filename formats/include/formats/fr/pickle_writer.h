// Writes Python pickles of plain data: dicts, lists, pairs, texts, numbers, None. Protocol 2, which every Python 3
// reads; opcodes as CPython's Lib/pickletools.py describes them. Texts that come again are written once (memo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>

namespace titan::format {

class PickleWriter {
  public:
    PickleWriter();

    // A dict is begun, filled with key, value, key, value ..., and ended; a list likewise. They may lie in each other.
    PickleWriter& begin_dict() { return put("}("); }
    PickleWriter& end_dict() { return put("u"); }
    PickleWriter& begin_list() { return put("]("); }
    PickleWriter& end_list() { return put("e"); }
    PickleWriter& text(std::string_view utf8);
    PickleWriter& integer(int64_t value);
    PickleWriter& real(double value);
    PickleWriter& boolean(bool value) { return put(value ? "\x88" : "\x89"); }
    PickleWriter& none() { return put("N"); }
    // Makes a tuple of the last two values.
    PickleWriter& pair() { return put("\x86"); }

    // The whole file; nothing may be written afterwards.
    std::span<const std::byte> finish();

  private:
    PickleWriter& put(std::string_view bytes);
    void number(uint64_t value, size_t size_bytes);  // little endian
    void memo(char short_form, char long_form, uint32_t index);

    std::string bytes_;
    std::unordered_map<std::string, uint32_t> memo_;
};

}  // namespace titan::format
