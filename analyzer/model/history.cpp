#include "history.h"

#include <algorithm>
#include <cstring>

#include "base/hash.h"

namespace titan::analyzer {
namespace {

uint64_t mix(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
    value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
    return value ^ (value >> 31);
}

}  // namespace

uint64_t hash_of_arguments(const CallSignature& signature) {
    const uint64_t words = static_cast<uint64_t>(signature.kind) << 48 |
                           static_cast<uint64_t>(signature.datatype) << 40 |
                           static_cast<uint64_t>(signature.reduction) << 32 | static_cast<uint32_t>(signature.peer);
    return mix(mix(words + kHashMultiplier * (uint64_t{signature.agreed} + 1)) ^ signature.count);
}

uint32_t Column::operator[](size_t i) const {
    switch (width_) {
        case 1: return bytes_[i];
        case 2: {
            uint16_t value = 0;
            std::memcpy(&value, bytes_.data() + i * 2, 2);
            return value;
        }
        default: {
            uint32_t value = 0;
            std::memcpy(&value, bytes_.data() + i * 4, 4);
            return value;
        }
    }
}

void Column::assign(std::span<const uint32_t> values) {
    const uint32_t largest = values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    width_ = largest <= UINT8_MAX ? 1 : largest <= UINT16_MAX ? 2 : 4;
    bytes_.resize(values.size() * width_);
    if (width_ == 4) {
        std::memcpy(bytes_.data(), values.data(), bytes_.size());
        return;
    }
    for (size_t i = 0; i < values.size(); ++i) {
        if (width_ == 1) {
            bytes_[i] = static_cast<uint8_t>(values[i]);
        } else {
            const auto value = static_cast<uint16_t>(values[i]);
            std::memcpy(bytes_.data() + i * 2, &value, 2);
        }
    }
}

int32_t Runs::at(uint32_t index) const {
    const auto next =
        std::upper_bound(runs_.begin(), runs_.end(), index, [](uint32_t at, const Run& run) { return at < run.first; });
    return next == runs_.begin() ? none_ : std::prev(next)->value;
}

std::pair<uint32_t, uint32_t> Runs::around(uint32_t index, uint32_t size) const {
    const auto next =
        std::upper_bound(runs_.begin(), runs_.end(), index, [](uint32_t at, const Run& run) { return at < run.first; });
    return {next == runs_.begin() ? 0 : std::prev(next)->first, next == runs_.end() ? size : next->first};
}

size_t CallLog::lower_bound(uint64_t sequence) const {
    if (!sequences_.empty()) {
        return static_cast<size_t>(std::lower_bound(sequences_.begin(), sequences_.end(), sequence) -
                                   sequences_.begin());
    }
    return sequence <= first_ ? 0 : static_cast<size_t>(std::min<uint64_t>(sequence - first_, size()));
}

std::optional<uint32_t> CallLog::find(uint64_t wanted) const {
    const size_t i = lower_bound(wanted);
    return i < size() && sequence(i) == wanted ? std::optional(places_[i]) : std::nullopt;
}

uint64_t CallLog::block_hash(uint64_t block) const {
    return block < first_block_ || block - first_block_ >= hashes_.size() ? 0 : hashes_[block - first_block_];
}

void CallLog::assign(std::vector<uint64_t> sequences, std::vector<uint32_t> places, const History& history) {
    first_ = sequences.empty() ? 0 : sequences.front();
    places_ = std::move(places);
    places_.shrink_to_fit();
    hashes_.clear();
    const bool dense = sequences.empty() || sequences.back() - sequences.front() + 1 == sequences.size();
    sequences_ = dense ? std::vector<uint64_t>() : std::move(sequences);
    if (!dense || places_.empty()) {
        return;
    }
    std::vector<uint64_t> hash_of(history.signatures.size());
    for (size_t signature = 0; signature < hash_of.size(); ++signature) {
        hash_of[signature] = hash_of_arguments(history.signatures[signature]);
    }
    first_block_ = first_ / kBlockCalls + (first_ % kBlockCalls != 0 ? 1 : 0);
    for (uint64_t begin = first_block_ * kBlockCalls - first_; begin + kBlockCalls <= size(); begin += kBlockCalls) {
        uint64_t hash = 0;
        for (uint64_t i = begin; i < begin + kBlockCalls; ++i) {
            hash = (hash << 7 | hash >> 57) * kHashMultiplier + hash_of[history.calls[places_[i]]];
        }
        hash = mix(hash);
        hashes_.push_back(hash == 0 ? 1 : hash);
    }
    hashes_.shrink_to_fit();
}

}  // namespace titan::analyzer
