#include "formats/container/journal_reader.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "formats/container/marker_columns.h"
#include "formats/container/packed.h"
#include "formats/container/section_writer.h"
#include "formats/container/step_columns.h"
#include "section_file.h"

namespace titan::format {
namespace {

constexpr FileKind kJournals{"journal", kJournalMagic, kJournalMajor, kJournalMinor, kMaxJournalSections, true};
constexpr size_t kLeastMarkerBytes = 12;  // one for each of its columns
constexpr size_t kLeastStepBytes = 8;
constexpr size_t kLeastCommunicatorBytes = 3;
constexpr size_t kLeastCallsBytes = 10;
constexpr size_t kLeastHealthBytes = 10;
constexpr size_t kLeastProcessBytes = 3;
constexpr size_t kLeastRowBytes = 8;
constexpr size_t kBeginningBytes = sizeof(RingHeader) + 64;
constexpr const char* kMisfit = "its fields do not fit together: damaged, or written by a defective writer";

// Four numbers, and whether they can be true.
bool is_plausible(const BlockRow& row) {
    return row.markers <= kJournalBlockMarkers && row.first_ticket <= UINT64_MAX / 4 && row.first_call <= row.next_call;
}

bool read_tickets(Unpacker& content, BlockRow& row) {
    for (uint64_t* const number : {&row.first_ticket, &row.markers, &row.first_call, &row.next_call}) {
        content.number(*number);
    }
    return content.good() && is_plausible(row);
}

void unpack_header(Unpacker& content, RingHeader& header) {
    auto* const bytes = reinterpret_cast<unsigned char*>(&header);
    for (size_t i = 0; i < sizeof(RingHeader); ++i) {
        bytes[i] = content.byte();
    }
}

// The fields come in the order of their tags: each finds what it refers to.
class BlockReader {
  public:
    // False: damaged, or of a process that nobody can name.
    bool read(std::span<const std::byte> raw, MarkerBlock& block) {
        block = MarkerBlock{};
        Unpacker fields(raw);
        Unpacker content({});
        uint64_t tag = 0;
        while (fields.next_field(tag, content)) {
            switch (static_cast<JournalTag>(tag)) {
                case JournalTag::kHeader: unpack_header(content, block.header); break;
                case JournalTag::kTickets: good_ = read_tickets(content, tickets_) && good_; break;
                case JournalTag::kTexts: texts(content, block.texts); break;
                case JournalTag::kSites: sites(content, block.sites); break;
                case JournalTag::kMarkers: markers(content, block); break;
                case JournalTag::kSteps: steps(content, block.steps); break;
                case JournalTag::kStepCalls: step_calls(content, block); break;
                case JournalTag::kHealth: health(content, block.health); break;
                default: continue;  // of a newer minor
            }
            good_ = good_ && content.good();
        }
        block.first_ticket = tickets_.first_ticket;
        block.first_call = tickets_.first_call;
        block.next_call = tickets_.next_call;
        return good_ && fields.good() && block.header.magic == kRingMagic && block.header.endian_tag == kEndianTag &&
               block.markers.size() == tickets_.markers;
    }

  private:
    static void texts(Unpacker& content, std::vector<std::string>& texts) {
        const size_t count = content.count(0, 1);
        for (size_t i = 0; i < count && content.good(); ++i) {
            content.text(texts.emplace_back());
        }
    }
    static void sites(Unpacker& content, std::vector<MarkerSiteRecord>& sites) {
        const size_t count = content.count(0, 2);
        for (size_t i = 0; i < count && content.good(); ++i) {
            MarkerSiteRecord& site = sites.emplace_back();
            content.number(site.key);
            content.number(site.place);
        }
    }
    void markers(Unpacker& content, MarkerBlock& block) {
        if (!good_ || tickets_.markers > content.size_bytes() / kLeastMarkerBytes) {
            good_ = false;
            return;
        }
        block.markers.resize(tickets_.markers);
        code_markers(content, std::span(block.markers));
        for (size_t i = 0; i < block.markers.size(); ++i) {
            block.markers[i].slot_sequence = 2 * (tickets_.first_ticket + i) + 2;
        }
    }

    static void steps(Unpacker& content, std::vector<StepSum>& steps) {
        steps.resize(content.count(0, kLeastStepBytes));
        code_steps(content, std::span(steps));
    }

    static void step_calls(Unpacker& content, MarkerBlock& block) {
        block.communicators.resize(content.count(0, kLeastCommunicatorBytes));
        for (StepCommunicator& communicator : block.communicators) {
            content.number(communicator.id);
            content.number(communicator.size);
            content.number(communicator.name);
        }
        block.calls.resize(content.count(0, kLeastCallsBytes));
        for (StepCalls& calls : block.calls) {
            uint64_t place = 0;
            content.number(place);
            calls.communicator_id =
                place == 0 || place > block.communicators.size() ? 0 : block.communicators[place - 1].id;
        }
        code_step_calls(content, std::span(block.calls));
    }

    static void health(Unpacker& content, std::vector<HealthExtremes>& rows) {
        rows.resize(content.count(0, kLeastHealthBytes));
        code_health(content, std::span(rows));
    }

    BlockRow tickets_{};
    bool good_ = true;
};

// Reads the beginning of a block, which has the first two fields.
std::string read_part(std::span<const std::byte> raw, JournalProcess& process, JournalPart& part) {
    RingHeader header{};
    Unpacker fields(raw);
    Unpacker content({});
    uint64_t tag = 0;
    if (!fields.next_field(tag, content) || static_cast<JournalTag>(tag) != JournalTag::kHeader) {
        return kMisfit;
    }
    unpack_header(content, header);
    if (header.magic != kRingMagic || !fields.next_field(tag, content) ||
        static_cast<JournalTag>(tag) != JournalTag::kTickets) {
        return kMisfit;
    }
    process = process_of(header);
    return read_tickets(content, part) ? "" : kMisfit;
}

// The first bytes that a section unpacks to.
std::string unpack_first_bytes(ZSTD_DCtx* context, const Section& section, std::vector<std::byte>& raw) {
    raw.resize(std::min<uint64_t>(section.header.raw_bytes, kBeginningBytes));
    return unpack_beginning(context, section.stored, raw.data(), raw.size())
               ? ""
               : "cannot be unpacked: the file is damaged";
}

// What an index tells, of blocks that follow it.
struct IndexedBlocks {
    std::vector<JournalProcess> processes;
    std::vector<BlockRow> rows;
};

void read_processes(Unpacker& content, std::vector<JournalProcess>& processes) {
    processes.resize(content.count(0, kLeastProcessBytes));
    for (JournalProcess& process : processes) {
        content.text(process.boot_id);
        content.number(process.pid);
        content.number(process.pid_start_ticks);
    }
}

bool read_rows(Unpacker& content, IndexedBlocks& blocks) {
    blocks.rows.resize(content.count(0, kLeastRowBytes));
    code_rows(content, std::span(blocks.rows));
    return std::all_of(blocks.rows.begin(), blocks.rows.end(), [&blocks](const BlockRow& row) {
        return is_plausible(row) && row.process < blocks.processes.size() && row.size_bytes > sizeof(SectionHeader);
    });
}

bool read_index(std::span<const std::byte> raw, IndexedBlocks& blocks) {
    Unpacker fields(raw);
    Unpacker content({});
    uint64_t tag = 0;
    bool is_good = true;
    while (fields.next_field(tag, content)) {
        switch (static_cast<IndexTag>(tag)) {
            case IndexTag::kProcesses: read_processes(content, blocks.processes); break;
            case IndexTag::kBlocks: is_good = read_rows(content, blocks) && is_good; break;
            default: continue;  // of a newer minor
        }
        is_good = is_good && content.good();
    }
    return is_good && fields.good();
}

// Goes from index to index, and from block to block where there is none.
class JournalWalk {
  public:
    JournalWalk(uint64_t file_bytes, const ReadBytes& read)
        : file_bytes_(file_bytes), read_(read), context_(ZSTD_createDCtx()) {}

    Result<JournalIndex> walk() {
        const Result<size_t> start = check_file_header(bytes_at(0, kPageBytes), kJournals);
        if (!start || context_ == nullptr) {
            return start ? Error("out of memory") : start.error();
        }
        offset_ = *start;
        while (offset_ < file_bytes_ && number_ <= kMaxJournalSections && take_section()) {
        }
        if (number_ > kMaxJournalSections) {
            index_.problems.push_back("more than " + std::to_string(kMaxJournalSections) +
                                      " sections: the rest is ignored");
        }
        return std::move(index_);
    }

  private:
    static constexpr size_t kPageBytes = 4096;

    void note(const std::string& problem) { index_.problems.push_back(in_section(number_, problem)); }

    // Fewer where the file ends. Valid until the next call.
    std::span<const std::byte> bytes_at(uint64_t offset_bytes, size_t size_bytes) {
        const bool is_there =
            offset_bytes >= window_offset_ && offset_bytes - window_offset_ + size_bytes <= window_.size();
        if (!is_there) {
            const uint64_t left = file_bytes_ - std::min(offset_bytes, file_bytes_);
            const size_t rest_of_page = kPageBytes - offset_bytes % kPageBytes;  // comes along, an index most often
            window_.resize(std::min<uint64_t>(std::max(size_bytes, rest_of_page), left));
            window_.resize(read_(offset_bytes, window_.data(), window_.size()));
            window_offset_ = offset_bytes;
        }
        const auto bytes = std::span(window_).subspan(offset_bytes - window_offset_);
        return bytes.first(std::min(size_bytes, bytes.size()));
    }

    // False: what comes behind cannot be found.
    bool take_section() {
        const auto bytes = bytes_at(offset_, sizeof(SectionHeader));
        if (bytes.size() < sizeof(SectionHeader)) {
            note("missing: the file is truncated");
            return false;
        }
        Section section{copy_from<SectionHeader>(bytes), {}, number_};
        const uint64_t stored_bytes = section.header.stored_bytes;
        const std::string problem = header_problem(section.header, file_bytes_ - offset_ - sizeof(SectionHeader));
        if (!problem.empty()) {
            note(problem);
            return false;
        }
        const auto kind = static_cast<JournalSection>(section.header.kind);
        uint64_t behind = offset_ + sizeof(SectionHeader) + stored_bytes;
        if (section.header.kind == SectionKind::kEnd) {
            return false;
        }
        if (kind == JournalSection::kIndex || kind == JournalSection::kBlock) {
            if (stored_bytes > ZSTD_compressBound(kMaxSectionRawBytes)) {
                note("claims " + std::to_string(stored_bytes) + " bytes: damaged, or written by a defective writer");
            } else {
                section.stored = bytes_at(offset_ + sizeof(SectionHeader), stored_bytes);
                behind = kind == JournalSection::kIndex ? take_index(section, behind) : take_block(section, behind);
            }
        }
        ++number_;
        offset_ = behind;
        return true;
    }

    // Answers where the blocks end that the index tells of.
    uint64_t take_index(const Section& section, uint64_t behind) {
        IndexedBlocks blocks;
        std::string problem = unpack(context_.get(), section, kMaxSectionRawBytes, raw_);
        if (problem.empty() && !read_index(raw_, blocks)) {
            problem = kMisfit;
        }
        if (!problem.empty()) {
            note(problem);
            return behind;
        }
        for (const BlockRow& row : blocks.rows) {
            ++number_;
            if (row.size_bytes > file_bytes_ - behind) {
                note("cut off: " + std::to_string(file_bytes_ - behind) + " of " + std::to_string(row.size_bytes) +
                     " bytes: the file is truncated");
                return file_bytes_;
            }
            add(blocks.processes[row.process], {row, behind});
            behind += row.size_bytes;
        }
        return behind;
    }

    // Of a block that no index tells of its beginning is unpacked.
    uint64_t take_block(const Section& section, uint64_t behind) {
        JournalPart part{};
        part.offset_bytes = offset_;
        part.size_bytes = static_cast<uint32_t>(behind - offset_);
        part.first_step = INT64_MIN;
        part.last_step = INT64_MAX;
        JournalProcess process;
        std::string problem = implausible(section, kMaxSectionRawBytes);
        problem = problem.empty() ? unpack_first_bytes(context_.get(), section, raw_) : problem;
        problem = problem.empty() ? read_part(raw_, process, part) : problem;
        if (problem.empty()) {
            add(process, part);
        } else {
            note(problem);
        }
        return behind;
    }

    void add(const JournalProcess& process, JournalPart part) {
        const auto [known, is_new] = places_.try_emplace(process, static_cast<uint32_t>(index_.processes.size()));
        if (is_new) {
            index_.processes.push_back(process);
        }
        part.process = known->second;
        index_.parts.push_back(part);
    }

    uint64_t file_bytes_;
    const ReadBytes& read_;
    Context context_;
    JournalIndex index_;
    std::map<JournalProcess, uint32_t> places_;
    std::vector<std::byte> window_;
    uint64_t window_offset_ = 0;
    std::vector<std::byte> raw_;
    uint64_t offset_ = 0;
    uint32_t number_ = 1;  // of the section
};

// Whether all that the index says of the block is true.
bool fits(const MarkerBlock& block, const JournalProcess& process, const JournalPart& part) {
    BlockRow steps{};
    steps.note_no_steps();
    for (const MarkerEntry& marker : block.markers) {
        steps.note_steps(marker);
    }
    for (const StepSum& sum : block.steps) {
        steps.note_step(sum.step);
    }
    return process_of(block.header) == process && block.first_ticket == part.first_ticket &&
           block.markers.size() == part.markers && block.first_call == part.first_call &&
           block.next_call == part.next_call && steps.first_step >= part.first_step &&
           steps.last_step <= part.last_step;
}

}  // namespace

JournalProcess process_of(const RingHeader& header) {
    return {std::string(header.boot_id, strnlen(header.boot_id, sizeof(header.boot_id))), header.pid,
            header.pid_start_ticks};
}

bool is_journal(std::span<const std::byte> file) {
    const uint64_t magic = file.size() < sizeof(uint64_t) ? 0 : copy_from<uint64_t>(file);
    return magic == kJournalMagic || magic == kForeignJournalMagic;
}

Result<JournalIndex> index_journal(uint64_t file_bytes, const ReadBytes& read) {
    return JournalWalk(file_bytes, read).walk();
}

Result<JournalIndex> index_journal(std::span<const std::byte> file) {
    return index_journal(file.size(), [file](uint64_t offset_bytes, void* into, size_t size_bytes) {
        const size_t there = std::min(size_bytes, file.size() - std::min<uint64_t>(offset_bytes, file.size()));
        if (there != 0) {
            std::memcpy(into, file.data() + offset_bytes, there);
        }
        return there;
    });
}

Result<MarkerBlock> read_block(std::span<const std::byte> bytes) {
    const SectionList list = list_sections(bytes, 0, kJournals);
    thread_local const Context context(ZSTD_createDCtx());  // larger than most blocks
    if (list.sections.empty() || context == nullptr) {
        return Error(list.problems.empty() ? "out of memory" : list.problems.front());
    }
    const Section& section = list.sections.front();
    std::vector<std::byte> raw;
    std::string problem = unpack(context.get(), section, kMaxSectionRawBytes, raw);
    MarkerBlock block;
    if (problem.empty() && !BlockReader().read(raw, block)) {
        problem = kMisfit;
    }
    return problem.empty() ? Result<MarkerBlock>(std::move(block)) : Error(problem);
}

Result<MarkerBlock> read_block(std::span<const std::byte> bytes, const JournalProcess& process,
                               const JournalPart& part) {
    Result<MarkerBlock> block = read_block(bytes);
    if (block && !fits(*block, process, part)) {
        return Error("a block is not what its index says: damaged, or written by a defective writer");
    }
    return block;
}

}  // namespace titan::format
