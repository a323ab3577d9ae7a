#include "decode_timing.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"

namespace titan::analyzer {
namespace {

using format::StreamWorkEntry;

constexpr size_t kMostSteps = 5;      // the newest ones, in which two in a row are looked for
constexpr size_t kMostPieces = 8192;  // of a step
constexpr int32_t kNothing = -1;

// What the host handed to a stream.
struct Handed {
    int64_t at_ns = 0;
    uint64_t stream = 0;
    uint64_t object = 0;       // event, or function and size of a kernel
    uint32_t call = kNoIndex;  // in Process::entries
    WorkKind kind{};
    bool is_waited = false;     // records: by another stream
    int32_t record = kNothing;  // waits: what they wait for, on another stream
    int32_t behind = kNothing;  // records: the piece before them
};

// A piece whose waits are indexes of pieces.
struct Placed {
    StreamPiece piece;
    int32_t waits_for = kNothing;
    int32_t and_for = kNothing;
};

bool is_call_on_stream(const Process& process, const Entry& entry) {
    return format::moves_data(entry.kind) && !entry.captured && entry.row < process.members.size();
}

bool are_ordered_alike(const std::vector<StreamPiece>& some, const std::vector<StreamPiece>& others) {
    return std::equal(
        some.begin(), some.end(), others.begin(), others.end(), [](const StreamPiece& a, const StreamPiece& b) {
            return a.row == b.row && a.kind == b.kind && a.waits_for == b.waits_for && a.and_for == b.and_for;
        });
}

class StepStreams {
  public:
    StepStreams(const format::RingImage& image, const Process& process) : process_(process) {
        read(image);
        find_waited();
        place_all();
    }

    std::vector<StreamPiece> of_a_step() const {
        for (size_t s = begins_.size(); s-- > 2;) {  // begins_[s] ends step s - 1
            std::vector<StreamPiece> newer = pieces_of(s - 1);
            if (!newer.empty() && newer.size() <= kMostPieces && are_ordered_alike(newer, pieces_of(s - 2))) {
                return without_loose_ends(newer);
            }
        }
        return {};
    }

  private:
    void read(const format::RingImage& image) {
        const auto losses = image.for_each_stream_work([&](uint64_t, const StreamWorkEntry& work) {
            if ((work.flags & format::kWorkCaptured) == 0) {
                handed_.push_back({image.clock().realtime_ns(work.entered_ticks), work.stream,
                                   is_event(work.kind) ? work.object : mix_hash(mix_hash(0, work.object), work.amount),
                                   kNoIndex, work.kind});
            }
        });
        const int64_t seen_since_ns = losses.overwritten == 0 || handed_.empty() ? 0 : handed_.front().at_ns;
        const std::vector<StepProfile>& steps = process_.steps;
        size_t first = steps.size() - std::min(steps.size(), kMostSteps);
        while (first < steps.size() && steps[first].begin_ns < seen_since_ns) {
            ++first;
        }
        if (losses.torn != 0 || handed_.empty() || steps.size() - first < 2) {
            handed_.clear();
            return;
        }
        for (size_t i = first; i < steps.size(); ++i) {
            step_begins_ns_.push_back(steps[i].begin_ns);
        }
        step_begins_ns_.push_back(steps.back().end_ns);
        for (uint32_t i = steps[first].first_call; i < process_.entries.size(); ++i) {
            const Entry& entry = process_.entries[i];
            if (is_call_on_stream(process_, entry)) {
                handed_.push_back({entry.entered_ns, entry.stream, 0, i, {}});
            }
        }
        std::erase_if(handed_, [&](const Handed& one) {
            return one.at_ns < step_begins_ns_.front() || one.at_ns >= step_begins_ns_.back();
        });
        std::stable_sort(handed_.begin(), handed_.end(),
                         [](const Handed& a, const Handed& b) { return a.at_ns < b.at_ns; });
    }

    static bool is_event(WorkKind kind) { return kind == WorkKind::kEventRecord || kind == WorkKind::kEventWait; }

    // A wait waits for the newest record of its event. Programs record many events that no other stream waits for.
    void find_waited() {
        std::unordered_map<uint64_t, size_t> newest;
        for (size_t i = 0; i < handed_.size(); ++i) {
            Handed& one = handed_[i];
            if (one.call != kNoIndex) {
                continue;
            }
            if (one.kind == WorkKind::kEventRecord) {
                newest[one.object] = i;
            } else if (one.kind == WorkKind::kEventWait) {
                const auto found = newest.find(one.object);
                if (found != newest.end() && handed_[found->second].stream != one.stream) {
                    handed_[found->second].is_waited = true;
                    one.record = static_cast<int32_t>(found->second);
                }
            }
        }
    }

    struct Stream {
        int32_t newest = kNothing;
        bool open = false;               // the newest piece is work, and goes on
        std::vector<int32_t> waits_for;  // by events, since then
    };

    void place_all() {
        uint32_t group = 0;  // of the call before
        for (Handed& one : handed_) {
            while (begins_.size() < step_begins_ns_.size() && step_begins_ns_[begins_.size()] <= one.at_ns) {
                begins_.push_back(placed_.size());
                for (auto& [name, stream] : streams_) {
                    stream.open = false;  // what its host did between two steps is the later one's
                }
            }
            Stream& stream = streams_[one.stream];
            if (one.call != kNoIndex) {
                const Entry& entry = process_.entries[one.call];
                if (entry.group == 0 || entry.group != group) {
                    StreamPiece call;
                    call.row = entry.row;
                    call.kind = entry.kind;
                    place(stream, call);
                    stream.open = false;
                }
                group = entry.group;
                continue;
            }
            if (one.kind == WorkKind::kEventRecord) {
                if (one.is_waited) {
                    if (!stream.waits_for.empty()) {
                        place(stream, {});  // nothing but the waits
                    }
                    stream.open = false;
                    one.behind = stream.newest;
                }
            } else if (one.kind == WorkKind::kEventWait) {
                const int32_t piece =
                    one.record == kNothing ? kNothing : handed_[static_cast<size_t>(one.record)].behind;
                if (piece != kNothing && !has_waited(stream, piece)) {
                    stream.waits_for.push_back(piece);
                }
            } else {
                if (!stream.open || !stream.waits_for.empty()) {
                    place(stream, {});
                    stream.open = true;
                }
                uint64_t& kernels = placed_[static_cast<size_t>(stream.newest)].piece.kernels;
                kernels = mix_hash(kernels + 1, one.object);
            }
        }
        begins_.resize(step_begins_ns_.size(), placed_.size());
    }

    // Each call of a group may bring the same wait.
    bool has_waited(const Stream& stream, int32_t piece) const {
        return stream.newest != kNothing && placed_[static_cast<size_t>(stream.newest)].and_for == piece;
    }

    void place(Stream& stream, const StreamPiece& piece) {
        std::vector<int32_t>& waits_for = stream.waits_for;
        std::sort(waits_for.begin(), waits_for.end());
        waits_for.erase(std::unique(waits_for.begin(), waits_for.end()), waits_for.end());
        while (waits_for.size() > 1) {  // more than two things to wait for: work of no length waits for some of them
            placed_.push_back({{}, waits_for.back(), waits_for[waits_for.size() - 2]});
            waits_for.pop_back();
            waits_for.back() = static_cast<int32_t>(placed_.size()) - 1;
        }
        placed_.push_back({piece, stream.newest, waits_for.empty() ? kNothing : waits_for.front()});
        waits_for.clear();
        stream.newest = static_cast<int32_t>(placed_.size()) - 1;
    }

    std::vector<StreamPiece> pieces_of(size_t step) const {
        const size_t size = begins_[step + 1] - begins_[step];
        std::vector<StreamPiece> pieces;
        for (size_t i = begins_[step]; i < begins_[step + 1]; ++i) {
            const auto back = [&](int32_t other) {
                const size_t distance = other == kNothing ? 0 : i - static_cast<size_t>(other);
                return static_cast<uint16_t>(distance <= size ? distance : 0);
            };
            pieces.push_back(placed_[i].piece);
            pieces.back().waits_for = back(placed_[i].waits_for);
            pieces.back().and_for = back(placed_[i].and_for);
        }
        return pieces;
    }

    // Only what a call waits for, at last.
    static std::vector<StreamPiece> without_loose_ends(const std::vector<StreamPiece>& all) {
        const size_t size = all.size();
        std::vector<bool> kept(size, false);
        std::vector<size_t> to_follow;
        const auto keep = [&](size_t i) {
            if (!kept[i]) {
                kept[i] = true;
                to_follow.push_back(i);
            }
        };
        for (size_t i = 0; i < size; ++i) {
            if (all[i].is_call()) {
                keep(i);
            }
        }
        while (!to_follow.empty()) {
            const size_t i = to_follow.back();
            to_follow.pop_back();
            for (const size_t back : {size_t{all[i].waits_for}, size_t{all[i].and_for}}) {
                if (back != 0) {
                    keep((i + size - back) % size);
                }
            }
        }
        std::vector<uint32_t> before(2 * size + 1, 0);  // kept pieces before the i-th of two steps
        for (size_t i = 0; i < 2 * size; ++i) {
            before[i + 1] = before[i] + (kept[i % size] ? 1 : 0);
        }
        std::unordered_map<uint64_t, uint64_t> numbers;
        std::vector<StreamPiece> pieces;
        for (size_t i = 0; i < size; ++i) {
            const auto distance = [&](uint16_t back) {
                return static_cast<uint16_t>(back == 0 ? 0 : before[size + i] - before[size + i - back]);
            };
            if (kept[i]) {
                pieces.push_back(all[i]);
                if (all[i].kernels != 0) {  // short numbers are short in digests
                    pieces.back().kernels = numbers.try_emplace(all[i].kernels, numbers.size() + 1).first->second;
                }
                pieces.back().waits_for = distance(all[i].waits_for);
                pieces.back().and_for = distance(all[i].and_for);
            }
        }
        return pieces;
    }

    const Process& process_;
    std::vector<Handed> handed_;           // in the host's order
    std::vector<int64_t> step_begins_ns_;  // and where the last one ends
    std::vector<Placed> placed_;
    std::vector<size_t> begins_;  // likewise, in placed_
    std::unordered_map<uint64_t, Stream> streams_;
};

}  // namespace

std::vector<StreamPiece> step_streams(const format::RingImage& image, const Process& process) {
    return process.steps.size() < 2 ? std::vector<StreamPiece>() : StepStreams(image, process).of_a_step();
}

}  // namespace titan::analyzer
