// The readers: each recognises its witness' words and reads them.
#pragma once

#include <charconv>
#include <csignal>
#include <vector>

#include "run.h"
#include "witness.h"

namespace titan::analyzer {

bool is_torchrun_log(const WitnessFile& file);
void read_torchrun_log(const WitnessFile& file, std::vector<Testimony>& into);

bool is_error_file(const WitnessFile& file);
void read_error_file(const WitnessFile& file, std::vector<Testimony>& into);

bool is_slurm_log(const WitnessFile& file);
void read_slurm_log(const WitnessFile& file, std::vector<Testimony>& into);
bool is_sacct(const WitnessFile& file);
void read_sacct(const WitnessFile& file, std::vector<Testimony>& into);

bool is_mpirun_log(const WitnessFile& file);
void read_mpirun_log(const WitnessFile& file, std::vector<Testimony>& into);
bool is_ras_json(const WitnessFile& file);
void read_ras_json(const WitnessFile& file, std::vector<Testimony>& into);
bool is_ras_text(const WitnessFile& file);
void read_ras_text(const WitnessFile& file, std::vector<Testimony>& into);

bool is_nccl_log(const WitnessFile& file);
void read_nccl_log(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torch_debug(const WitnessFile& file);
void read_torch_debug(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torch_watchdog(const WitnessFile& file);
void read_torch_watchdog(const WitnessFile& file, std::vector<Testimony>& into);

bool is_torchcomms_clog(const WitnessFile& file);
void read_torchcomms_clog(const WitnessFile& file, std::vector<Testimony>& into);

// --- Helpers of the readers of witnesses' text. Nothing here allocates more than it is given, or believes a number
// that it cannot hold.

// Lines of a text, without their ends. Of a line beyond any reason only its beginning.
class Lines {
  public:
    explicit Lines(std::string_view text) : rest_(text) {}

    bool next(std::string_view& line) {
        if (rest_.empty()) {
            return false;
        }
        const size_t end = rest_.find('\n');
        line = rest_.substr(0, end);
        rest_.remove_prefix(end == std::string_view::npos ? rest_.size() : end + 1);
        while (!line.empty() && line.back() == '\r') {
            line.remove_suffix(1);
        }
        line = line.substr(0, kMaxBytes);
        return true;
    }

  private:
    static constexpr size_t kMaxBytes = 16384;
    std::string_view rest_;
};

inline bool has(std::string_view text, std::string_view words) { return text.find(words) != std::string_view::npos; }

inline std::string_view without_spaces(std::string_view text) {
    const size_t begin = text.find_first_not_of(" \t");
    return begin == std::string_view::npos ? std::string_view()
                                           : text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Cuts the text up to and with `mark` off and returns what was before it; nothing happens where there is none.
inline std::optional<std::string_view> take_until(std::string_view& text, std::string_view mark) {
    const size_t place = text.find(mark);
    if (place == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view before = text.substr(0, place);
    text.remove_prefix(place + mark.size());
    return before;
}

// The number that the text begins with, cut off it.
template <typename Number = int32_t>
std::optional<Number> take_number(std::string_view& text) {
    Number number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (failed != std::errc()) {
        return std::nullopt;
    }
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return number;
}

// The rank (or task, size, attempt) that the text begins with, cut off it; -1 for what cannot be one.
inline int32_t take_rank(std::string_view& text) { return plausible_rank(take_number(text).value_or(-1)); }

// 0 for a number that is no signal.
inline int32_t signal_of(int64_t claimed) { return claimed > 0 && claimed < NSIG ? static_cast<int32_t>(claimed) : 0; }

// Reads a status in Python's form: a negative number is the signal that ended the process.
inline int32_t signal_of_status(int64_t status) { return status > -NSIG ? signal_of(-status) : 0; }

}  // namespace titan::analyzer
