// Runs a fuzz target without a fuzzer: its seeds, every prefix and single-byte change of a few places, then deterministic
// mutations until the time is up. The same target links with libFuzzer, which brings its own main().
//   driver [SECONDS] [FILE...]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <vector>

#include "target.h"

namespace {

using Bytes = std::vector<unsigned char>;

Bytes read(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return Bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
}

uint64_t interesting(std::mt19937_64& random) {
    static constexpr uint64_t kValues[] = {
        0,         1, 2, 255, 4095, 4096, 65535, INT32_MAX, UINT32_MAX, uint64_t{1} << 32, INT64_MAX, UINT64_MAX - 1,
        UINT64_MAX};
    return random() % 4 == 0 ? random() : kValues[random() % std::size(kValues)];
}

void mutate(Bytes& bytes, std::mt19937_64& random) {
    const int changes = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < changes && !bytes.empty(); ++i) {
        // Headers decide most: half of all changes hit the first page.
        const size_t place = random() % (random() % 2 == 0 ? std::min<size_t>(bytes.size(), 4096) : bytes.size());
        switch (random() % 5) {
            case 0: bytes[place] ^= static_cast<unsigned char>(1U << (random() % 8)); break;
            case 1: bytes[place] = static_cast<unsigned char>(random()); break;
            case 2: bytes.resize(place); break;
            default: {
                const uint64_t value = interesting(random);
                const size_t aligned = place / 8 * 8;
                for (size_t byte = 0; byte < 8 && aligned + byte < bytes.size(); ++byte) {
                    bytes[aligned + byte] = static_cast<unsigned char>(value >> (8 * byte));
                }
            }
        }
    }
}

}  // namespace

int main(int argc, char** argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 5.0;
    std::vector<Bytes> seeds;
    for (int i = 2; i < argc; ++i) {
        seeds.push_back(read(argv[i]));
    }
    if (seeds.empty()) {
        seeds = titan::fuzz::seeds();
    }
    const auto started = std::chrono::steady_clock::now();
    const auto elapsed_s = [&] {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    };
    size_t inputs = 0;
    for (const Bytes& seed : seeds) {
        LLVMFuzzerTestOneInput(seed.data(), seed.size());
        for (size_t size = 0; size < seed.size(); size += 1 + seed.size() / 64) {
            LLVMFuzzerTestOneInput(seed.data(), size);
            ++inputs;
        }
    }
    std::mt19937_64 random(20'260'101);
    while (argc <= 2 && elapsed_s() < seconds) {
        Bytes bytes = seeds[random() % seeds.size()];
        mutate(bytes, random);
        LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
        ++inputs;
    }
    std::printf("%zu inputs in %.1f s\n", inputs, elapsed_s());
    return 0;
}
