#include "journals.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>

#include "formats/ring/journal_image.h"
#include "host/mapped.h"
#include "host/words.h"
#include "share_work.h"

namespace titan::analyzer {
namespace {

std::string label_of(const std::string& path) { return printable(std::filesystem::path(path).filename().string()); }

// Leaves out the markers before `ticket`, which an earlier block had, and those from `until` on.
void cut(format::MarkerBlock& block, uint64_t ticket, uint64_t until) {
    if (block.first_ticket + block.markers.size() > until) {
        block.markers.resize(until - block.first_ticket);
    }
    if (block.first_ticket < ticket) {
        block.markers.erase(block.markers.begin(),
                            block.markers.begin() + static_cast<std::ptrdiff_t>(ticket - block.first_ticket));
        block.first_ticket = ticket;
    }
}

// How many markers of each process are joined: what becomes of those of all is in memory at once.
uint64_t most_of_each(size_t processes) {
    constexpr uint64_t kMost = 1 << 16;
    constexpr uint64_t kTogether = 1 << 22;
    constexpr uint64_t kLeast = 1 << 13;  // of TITANTRACE_MARKERS
    return std::clamp(kTogether / std::max<uint64_t>(processes, 1), kLeast, kMost);
}

// Likewise of sums of calls.
size_t most_sums_of_each(size_t processes) {
    constexpr size_t kTogether = 1 << 19;
    return std::clamp<size_t>(kTogether / std::max<size_t>(processes, 1), 1 << 8, 1 << 14);
}

void take_sums(const format::MarkerBlock& block, size_t most, OpenedSource& opened) {
    for (const format::StepCommunicator& communicator : block.communicators) {
        opened.communicator_names[communicator.id] = block.text(communicator.name);
    }
    std::vector<format::StepCalls>& sums = opened.step_calls;
    sums.insert(sums.end(), block.calls.begin(), block.calls.end());
    if (sums.size() > most) {
        sums.erase(sums.begin(), sums.end() - static_cast<std::ptrdiff_t>(most));
    }
}

constexpr size_t kFilesAtOnce = 64;

Result<format::JournalIndex> index_of(const std::string& path) {
    const Result<OpenFile> file = open_journal(path);
    return file ? format::index_journal(file->size_bytes(),
                                        [&file](uint64_t offset_bytes, void* into, size_t size_bytes) {
                                            return file->read_at(offset_bytes, into, size_bytes);
                                        })
                : file.error();
}

std::vector<Result<format::JournalIndex>> indexes_of(std::span<const std::string> paths) {
    std::vector<Result<format::JournalIndex>> indexes(paths.size(), Error(""));
    share_work(paths.size(), kReadersAtOnce, [&](const auto& next, bool) {
        while (const std::optional<size_t> i = next()) {
            indexes[*i] = index_of(paths[*i]);
        }
    });
    return indexes;
}

}  // namespace

Result<OpenFile> open_journal(const std::string& path) { return OpenFile::open(path, Links::kFollow, UINT64_MAX); }

ProcessKey process_key(const Process& process) { return {process.boot_id, process.pid, process.pid_start_ticks}; }

Journals::Journals(const std::vector<std::string>& paths) : paths_(paths) {
    for (size_t first = 0; first < paths_.size(); first += kFilesAtOnce) {
        const std::span<const std::string> some(paths_.data() + first, std::min(kFilesAtOnce, paths_.size() - first));
        const std::vector<Result<format::JournalIndex>> indexes = indexes_of(some);
        for (size_t i = 0; i < some.size(); ++i) {
            if (indexes[i]) {
                add(static_cast<uint32_t>(first + i), *indexes[i]);
            } else {
                problems_.push_back(indexes[i].error().within(label_of(some[i])).text());
            }
        }
    }
    for (auto& [key, process] : processes_) {
        process.key = &key;
        std::stable_sort(process.parts.begin(), process.parts.end(),
                         [](const Part& a, const Part& b) { return a.part.first_ticket < b.part.first_ticket; });
    }
}

void Journals::add(uint32_t file, const format::JournalIndex& index) {
    std::vector<Process*> of_index = mapped(index.processes, [&](const ProcessKey& key) { return &processes_[key]; });
    for (const format::JournalPart& part : index.parts) {
        of_index[part.process]->parts.push_back({file, part});
    }
    for (const std::string& problem : index.problems) {
        problems_.push_back(label_of(paths_[file]) + ": " + problem);
    }
}

std::vector<ProcessKey> Journals::processes() const {
    return mapped(processes_, [](const auto& one) { return one.first; });
}

std::set<std::string> Journals::paths_of(const ProcessKey& process) const {
    std::set<std::string> paths;
    for (const Part& part : processes_.at(process).parts) {
        paths.insert(paths_[part.file]);
    }
    return paths;
}

Result<format::MarkerBlock> Journals::read(const Process& process, const Part& part) {
    if (open_file_ != part.file) {
        Result<OpenFile> file = open_journal(paths_[part.file]);
        if (!file) {
            return file.error();
        }
        file_ = std::make_unique<OpenFile>(std::move(*file));
        open_file_ = part.file;
    }
    std::vector<std::byte> bytes(part.part.size_bytes);
    if (file_->read_at(part.part.offset_bytes, bytes.data(), bytes.size()) != bytes.size()) {
        return Error("cut off while it is read");
    }
    return format::read_block(bytes, *process.key, part.part);
}

// Two ranks of a node may write as both leave it. Of blocks that go as far, the one counts that tells how the process
// ended.
bool Journals::newest(const ProcessKey& process, std::vector<std::byte>& memory, format::RingImage& image) {
    const auto known = processes_.find(process);
    if (known == processes_.end()) {
        return false;
    }
    const auto end_of = [](const Part& part) { return part.part.first_ticket + part.part.markers; };
    std::vector<const Part*> parts = mapped(known->second.parts, [](const Part& part) { return &part; });
    std::stable_sort(parts.begin(), parts.end(), [&](const Part* a, const Part* b) { return end_of(*a) < end_of(*b); });
    std::vector<std::byte> bytes;
    const Part* found = nullptr;
    for (auto part = parts.rbegin(); part != parts.rend() && (found == nullptr || end_of(**part) == end_of(*found));
         ++part) {
        const Result<format::MarkerBlock> block = read(known->second, **part);
        const Result<format::RingImage> made = block ? format::image_of(*block, bytes) : block.error();
        if (!made) {
            note(**part, made.error());
            continue;
        }
        const bool tells_end = made->header().state != format::ProcessState::kRunning;
        if (found == nullptr || tells_end) {
            found = *part;
            image = *made;
            memory.swap(bytes);
        }
        if (tells_end) {
            break;
        }
    }
    return found != nullptr;
}

bool Journals::open(const ProcessKey& process, std::vector<std::byte>& memory, OpenedSource& opened) {
    if (!newest(process, memory, opened.image)) {
        return false;
    }
    Process& known = processes_.at(process);
    uint64_t end = 0;
    for (const Part& part : known.parts) {
        end = std::max(end, part.part.first_ticket + part.part.markers);
    }
    BlockJoiner joiner(opened.image.header());
    uint64_t next_call = 0;
    visit_blocks(process, end - std::min(end, most_of_each(processes_.size())), end, {},
                 [&](const Part&, format::MarkerBlock& block) {
                     if (block.first_call >= next_call) {  // else summed up twice: see visit_steps
                         take_sums(block, most_sums_of_each(processes_.size()), opened);
                         next_call = block.next_call;
                     }
                     joiner.add(std::move(block));
                 });
    add_labels(known, joiner);
    const Result<format::RingImage> image = format::image_of(joiner.joined(), memory);
    if (!image) {
        return false;
    }
    const format::RingHeader& header = image->header();
    opened.image = *image;
    opened.now_ticks = opened.seen_ticks = newest_tick(*image);
    opened.liveness = header.state == format::ProcessState::kCrashed  ? Liveness::kCrashed
                      : header.state == format::ProcessState::kExited ? Liveness::kExited
                                                                      : Liveness::kUnknown;
    opened.source.is_journal = true;
    opened.source.path = paths_[known.parts.back().file];
    opened.source.label = label_of(opened.source.path);
    return true;
}

// Labels are set when a program starts: the oldest block has them.
void Journals::add_labels(Process& process, BlockJoiner& joiner) {
    const Part& oldest = process.parts.front();
    if (oldest.part.first_ticket + oldest.part.markers > joiner.joined().first_ticket) {
        return;
    }
    if (Result<format::MarkerBlock> block = read(process, oldest)) {
        std::erase_if(block->markers,
                      [](const format::MarkerEntry& marker) { return marker.kind != format::MarkerKind::kLabel; });
        joiner.put_before(std::move(*block));
    }
}

// A host's clock may be set while the job runs. What the newest block calls the time holds for all of them: else a span
// that lies across that moment would end before it began, or a day later. Clocks that are only slowed down or sped up
// stay as they were read.
void Journals::set_clock(format::MarkerBlock& block, Process& process) {
    constexpr double kLeastStepNs = 1e9;
    constexpr double kMostDrift = 1e-3;
    for (size_t i = process.parts.size(); i > 0 && !process.newest; --i) {
        if (const Result<format::MarkerBlock> newest = read(process, process.parts[i - 1])) {
            process.newest = newest->header.last_anchor;
            process.clock = format::RingClock(newest->header);
        }
    }
    if (!process.newest) {
        return;
    }
    const auto move = [&process](format::ClockAnchor& anchor) {
        const int64_t by_newest_ns = process.clock.realtime_ns(anchor.ticks);
        const double apart_ns = std::abs(static_cast<double>(by_newest_ns) - static_cast<double>(anchor.realtime_ns));
        const auto age_ns = static_cast<double>(process.clock.span_ns(anchor.ticks, process.newest->ticks));
        if (by_newest_ns != 0 && apart_ns > kLeastStepNs + kMostDrift * std::abs(age_ns)) {
            anchor.realtime_ns = static_cast<uint64_t>(by_newest_ns);
        }
    };
    move(block.header.first_anchor);
    move(block.header.last_anchor);
}

void Journals::complete_places(format::MarkerBlock& block, Process& process, size_t next_part) {
    for (format::MarkerSiteRecord& site : block.sites) {
        if (site.place != 0) {
            continue;
        }
        const std::string& place = place_in_later(site.key, process, next_part);
        if (!place.empty()) {
            block.texts.push_back(place);
            site.place = static_cast<uint32_t>(block.texts.size());
        }
    }
}

// The tracer puts a place into words within a second: the next block or so has it.
const std::string& Journals::place_in_later(uint64_t key, Process& process, size_t next_part) {
    constexpr size_t kMostParts = 16;
    const auto [known, is_new] = process.places.try_emplace(key);
    for (size_t i = next_part; is_new && i < process.parts.size() && i < next_part + kMostParts; ++i) {
        const Result<format::MarkerBlock> block = read(process, process.parts[i]);
        for (size_t row = 0; block && row < block->sites.size(); ++row) {
            const format::MarkerSiteRecord& site = block->sites[row];
            if (site.key == key && site.place != 0 && site.place <= block->texts.size()) {
                known->second = block->texts[site.place - 1];
                return known->second;
            }
        }
    }
    return known->second;
}

// Blocks are visited more than once.
void Journals::note(const Part& part, const Error& error) {
    const std::string problem = error.within(label_of(paths_[part.file])).text();
    if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) {
        problems_.push_back(problem);
    }
}

uint64_t Journals::visit(const ProcessKey& process, uint64_t from, uint64_t until, const StepRange& steps,
                         const std::function<void(const format::RingImage& image)>& visit) {
    std::vector<std::byte> memory;
    return visit_blocks(process, from, until, steps, [&](const Part& part, const format::MarkerBlock& block) {
        if (const Result<format::RingImage> image = format::image_of(block, memory)) {
            visit(*image);
        } else {
            note(part, image.error());
        }
    });
}

namespace {

// Goes through a process's blocks in their order, and says which are of the wanted steps.
class ChosenBlocks {
  public:
    explicit ChosenBlocks(const StepRange& steps) : steps_(steps) {}

    bool wants(const format::BlockRow& row) {
        const bool is_of_steps = !steps_ || row.overlaps(steps_->first, steps_->second);
        const bool begins = !has_begun_ && row.last_step > format::kNoStep;
        const bool is_wanted = is_of_steps || was_of_steps_ || begins;
        has_begun_ |= begins;
        was_of_steps_ = is_of_steps;
        return is_wanted;
    }

  private:
    const StepRange& steps_;
    bool has_begun_ = false;
    bool was_of_steps_ = false;
};

}  // namespace

uint64_t Journals::visit_blocks(const ProcessKey& process, uint64_t from, uint64_t until, const StepRange& steps,
                                const VisitBlock& visit) {
    const auto known = processes_.find(process);
    uint64_t next = from;
    uint64_t end = until == UINT64_MAX ? from : until;
    uint64_t missing = 0;
    ChosenBlocks chosen(steps);
    for (size_t i = 0; known != processes_.end() && i < known->second.parts.size(); ++i) {
        const Part& of = known->second.parts[i];
        const format::JournalPart& part = of.part;
        const uint64_t behind = part.first_ticket + part.markers;
        if (part.first_ticket >= until || behind <= next) {
            continue;
        }
        end = until == UINT64_MAX ? std::max(end, behind) : end;
        if (chosen.wants(part)) {
            Result<format::MarkerBlock> block = read(known->second, of);
            if (!block) {
                note(of, block.error());
                continue;
            }
            cut(*block, next, until);
            set_clock(*block, known->second);
            complete_places(*block, known->second, i + 1);
            visit(of, *block);
        }
        missing += std::max(part.first_ticket, next) - next;
        next = std::min(behind, until);
    }
    return missing + end - std::min(end, next);
}

void Journals::visit_steps(const ProcessKey& process, const StepRange& steps, const VisitSums& visit,
                           const std::function<void(uint64_t from, uint64_t until)>& gap) {
    std::vector<const Part*> parts;
    const auto known = processes_.find(process);
    if (known != processes_.end()) {
        for (const Part& part : known->second.parts) {
            if (part.part.next_call > part.part.first_call) {
                parts.push_back(&part);
            }
        }
    }
    // If two begin at the same call, the one that goes further: another process took the other writer's place.
    std::stable_sort(parts.begin(), parts.end(), [](const Part* a, const Part* b) {
        return std::pair(a->part.first_call, b->part.next_call) < std::pair(b->part.first_call, a->part.next_call);
    });
    uint64_t next = 0;
    for (const Part* part : parts) {
        if (part->part.first_call < next) {
            continue;  // summed up twice, where one writer took over from another: a sum cannot be divided
        }
        const bool is_wanted = !steps || part->part.overlaps(steps->first, steps->second);
        const Result<format::MarkerBlock> block = is_wanted ? read(known->second, *part) : format::MarkerBlock();
        if (!block) {
            note(*part, block.error());
            continue;
        }
        if (part->part.first_call > next) {
            gap(next, part->part.first_call);
        }
        next = part->part.next_call;
        if (is_wanted) {
            visit(*block);
        }
    }
    gap(next, UINT64_MAX);
}

void Journals::visit_health(const ProcessKey& process, const StepRange& steps, const VisitSums& visit) {
    const auto known = processes_.find(process);
    for (size_t i = 0; known != processes_.end() && i < known->second.parts.size(); ++i) {
        const Part& part = known->second.parts[i];
        if (steps && !part.part.overlaps(steps->first, steps->second)) {
            continue;
        }
        const Result<format::MarkerBlock> block = read(known->second, part);
        if (!block) {
            note(part, block.error());
        } else if (!block->health.empty()) {
            visit(*block);
        }
    }
}

// --- blocks as one

uint32_t BlockJoiner::text(const std::string& text) {
    const auto [known, is_new] = texts_.try_emplace(text, static_cast<uint32_t>(joined_.texts.size() + 1));
    if (is_new) {
        joined_.texts.push_back(text);
    }
    return known->second;
}

// Numbers count from 1 in each block; what a damaged block refers to and does not have is none.
void BlockJoiner::renumber(format::MarkerBlock& block) {
    std::vector<uint32_t> texts{0};
    for (const std::string& one : block.texts) {
        texts.push_back(text(one));
    }
    const auto text_of = [&](uint32_t number) { return number < texts.size() ? texts[number] : 0; };
    std::vector<uint32_t> sites{0};
    for (const format::MarkerSiteRecord& site : block.sites) {
        const auto [known, is_new] = sites_.try_emplace(site.key, static_cast<uint32_t>(joined_.sites.size() + 1));
        if (is_new) {
            joined_.sites.push_back({site.key, 0, 0});
        }
        format::MarkerSiteRecord& row = joined_.sites[known->second - 1];
        row.place = row.place != 0 ? row.place : text_of(site.place);
        sites.push_back(known->second);
    }
    for (format::MarkerEntry& marker : block.markers) {
        marker.name = text_of(marker.name);
        marker.text = text_of(marker.text);
        marker.site = marker.site < sites.size() ? sites[marker.site] : 0;
    }
}

void BlockJoiner::add(format::MarkerBlock block) {
    renumber(block);
    if (joined_.markers.empty()) {
        joined_.first_ticket = block.first_ticket;
    }
    joined_.markers.resize(block.first_ticket - joined_.first_ticket);
    joined_.markers.insert(joined_.markers.end(), block.markers.begin(), block.markers.end());
}

void BlockJoiner::put_before(format::MarkerBlock block) {
    renumber(block);
    const uint64_t count = std::min<uint64_t>(block.markers.size(), joined_.first_ticket);
    block.markers.resize(count);
    joined_.first_ticket -= count;
    for (uint64_t i = 0; i < count; ++i) {
        block.markers[i].slot_sequence = 2 * (joined_.first_ticket + i) + 2;
    }
    joined_.markers.insert(joined_.markers.begin(), block.markers.begin(), block.markers.end());
}

}  // namespace titan::analyzer
