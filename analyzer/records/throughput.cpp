#include "throughput.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace titan::analyzer {
namespace {

struct Peak {
    std::string_view model;
    double tflops;
};

// The first that fits.
constexpr auto kPeaks = std::to_array<Peak>({
    {"GB200", 2500},     {"B200", 2250},     {"GH200", 989.4}, {"H200 NVL", 835.5}, {"H200", 989.4},
    {"H100 NVL", 835.5}, {"H100 PCIe", 756}, {"H100", 989.4},  {"H800", 989.4},     {"H20", 148},
    {"A100", 312},       {"A800", 312},      {"A10G", 70},     {"A10", 125},        {"L40S", 362},
    {"L40", 181},        {"L4", 121},        {"V100", 125},    {"T4", 65},
});

bool is_part_of_word(std::string_view text, size_t place) {
    return place < text.size() && (std::isalnum(static_cast<unsigned char>(text[place])) != 0);
}

// "H100" in "8 x NVIDIA H100 80GB HBM3", not "L4" in "NVIDIA L40".
bool has_words(std::string_view text, std::string_view words) {
    const size_t place = text.find(words);
    return place != std::string_view::npos && !is_part_of_word(text, place + words.size()) &&
           (place == 0 || !is_part_of_word(text, place - 1));
}

}  // namespace

Throughput throughput_of(const WorkOfAStep& work, double step_ns, int ranks) {
    Throughput throughput;
    throughput.ranks = ranks;
    throughput.step_ns = step_ns;
    throughput.peak_tflops = work.peak_tflops;
    if (work.tokens_per_step > 0) {
        throughput.tokens_per_s = work.tokens_per_step * throughput.steps_per_s();
        if (work.flops_per_token > 0 && work.peak_tflops > 0) {
            throughput.mfu = *throughput.tokens_per_s * work.flops_per_token / (work.peak_tflops * 1e12 * ranks);
        }
    }
    return throughput;
}

double peak_tflops_of(std::string_view gpus) {
    const auto* peak =
        std::find_if(kPeaks.begin(), kPeaks.end(), [gpus](const Peak& row) { return has_words(gpus, row.model); });
    return peak == kPeaks.end() ? 0 : peak->tflops;
}

}  // namespace titan::analyzer
