// Deterministic mutations: the same seed and number give the same input.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>

#include "corpus.h"

namespace titan::fuzz {

class Mutator {
  public:
    Mutator(const std::vector<Sample>& samples, uint64_t seed) : samples_(samples), seed_(seed) {}

    // The n-th input, and the sample that it was made of.
    std::pair<Bytes, const Sample*> input(uint64_t number) {
        random_.seed(seed_ * 0x9E3779B97F4A7C15 + number);
        const Sample& sample = any_sample();
        Bytes bytes = sample.bytes;
        const uint64_t changes = 1 + below(6);
        for (uint64_t i = 0; i < changes && !bytes.empty(); ++i) {
            change(bytes);
        }
        return {std::move(bytes), &sample};
    }

  private:
    static constexpr size_t kMaxBytes = size_t{1} << 20;

    uint64_t below(uint64_t limit) { return random_() % limit; }
    const Sample& any_sample() { return samples_[below(samples_.size())]; }

    uint64_t interesting() {
        static constexpr uint64_t kValues[] = {0,         1,          2,          255,           4095,
                                               4096,      65535,      INT32_MAX,  UINT32_MAX,    uint64_t{1} << 32,
                                               INT64_MAX, 1ULL << 63, UINT64_MAX, UINT64_MAX - 1};
        return below(4) == 0 ? random_() : kValues[below(std::size(kValues))];
    }

    void change(Bytes& bytes) {
        // Headers decide most: half of all changes hit the first page.
        const size_t place = below(below(2) == 0 ? std::min<size_t>(bytes.size(), 4096) : bytes.size());
        switch (below(9)) {
            case 0: bytes[place] ^= static_cast<unsigned char>(1U << below(8)); break;
            case 1: bytes[place] = static_cast<unsigned char>(random_()); break;
            case 2: below(4) == 0 ? bytes.resize(place) : cut(bytes, place); break;
            case 3: write(bytes, place, 4); break;
            case 4: insert_from(bytes, place, any_sample().bytes); break;
            case 5: insert_from(bytes, place, Bytes(bytes)); break;
            case 6: replace_number(bytes, place); break;
            default: write(bytes, place / 8 * 8, 8);
        }
    }

    void write(Bytes& bytes, size_t place, size_t size) {
        const uint64_t value = interesting();
        for (size_t i = 0; i < size && place + i < bytes.size(); ++i) {
            bytes[place + i] = static_cast<unsigned char>(value >> (8 * i));
        }
    }

    void cut(Bytes& bytes, size_t place) {
        const size_t size = std::min<size_t>(1 + below(64), bytes.size() - place);
        bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(place),
                    bytes.begin() + static_cast<std::ptrdiff_t>(place + size));
    }

    void insert_from(Bytes& bytes, size_t place, const Bytes& source) {
        if (bytes.size() >= kMaxBytes || source.empty()) {
            return;
        }
        const size_t from = below(source.size());
        const size_t size = std::min<size_t>(1 + below(256), source.size() - from);
        const auto begin = source.begin() + static_cast<std::ptrdiff_t>(from);
        bytes.insert(bytes.begin() + static_cast<std::ptrdiff_t>(place), begin,
                     begin + static_cast<std::ptrdiff_t>(size));
    }

    // The next decimal number in a text.
    void replace_number(Bytes& bytes, size_t place) {
        const auto is_digit = [](unsigned char byte) { return byte >= '0' && byte <= '9'; };
        const auto begin = std::find_if(bytes.begin() + static_cast<std::ptrdiff_t>(place), bytes.end(), is_digit);
        const auto end = std::find_if_not(begin, bytes.end(), is_digit);
        const std::string number = (below(4) == 0 ? "-" : "") + std::to_string(interesting());
        const auto at = bytes.erase(begin, end);
        bytes.insert(at, number.begin(), number.end());
    }

    const std::vector<Sample>& samples_;
    uint64_t seed_;
    std::mt19937_64 random_;
};

}  // namespace titan::fuzz
