#include "formats/container/journal_reader.h"

#include <algorithm>
#include <cstring>

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
constexpr size_t kBeginningBytes = sizeof(RingHeader) + 64;
constexpr const char* kMisfit = "its fields do not fit together: damaged, or written by a defective writer";

// Four numbers, and whether they can be true.
bool read_tickets(Unpacker& content, JournalPart& part) {
    for (uint64_t* const number : {&part.first_ticket, &part.markers, &part.first_call, &part.next_call}) {
        content.number(*number);
    }
    return content.good() && part.markers <= kJournalBlockMarkers && part.first_ticket <= UINT64_MAX / 4 &&
           part.first_call <= part.next_call;
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
                default: continue;  // of a newer minor
            }
            good_ = good_ && content.good();
        }
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
        block.first_ticket = tickets_.first_ticket;
        block.markers.resize(tickets_.markers);
        code_markers(content, std::span(block.markers));
        for (size_t i = 0; i < block.markers.size(); ++i) {
            block.markers[i].slot_sequence = 2 * (block.first_ticket + i) + 2;
        }
    }

    static void steps(Unpacker& content, std::vector<StepSum>& steps) {
        steps.resize(content.count(0, kLeastStepBytes));
        code_steps(content, std::span(steps));
    }

    JournalPart tickets_;
    bool good_ = true;
};

// Reads the beginning of a block, which has the first two fields.
std::string read_part(std::span<const std::byte> raw, JournalPart& part) {
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
    const bool is_good = read_tickets(content, part);
    part.pid = header.pid;
    part.rank = plausible_rank(header.rank);
    part.pid_start_ticks = header.pid_start_ticks;
    part.boot_id = std::string(header.boot_id, strnlen(header.boot_id, sizeof(header.boot_id)));
    return is_good ? "" : kMisfit;
}

// The first bytes that a section unpacks to.
std::string unpack_beginning(ZSTD_DCtx* context, const Section& section, std::vector<std::byte>& raw) {
    raw.resize(std::min<uint64_t>(section.header.raw_bytes, kBeginningBytes));
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer stored{section.stored.data(), section.stored.size(), 0};
    ZSTD_outBuffer out{raw.data(), raw.size(), 0};
    while (out.pos < out.size) {
        const size_t before = out.pos;
        const size_t left = ZSTD_decompressStream(context, &out, &stored);
        if (ZSTD_isError(left) != 0 || (out.pos == before && stored.pos == stored.size)) {
            return "cannot be unpacked: the file is damaged";
        }
    }
    return {};
}

}  // namespace

bool is_journal(std::span<const std::byte> file) {
    const uint64_t magic = file.size() < sizeof(uint64_t) ? 0 : copy_from<uint64_t>(file);
    return magic == kJournalMagic || magic == kForeignJournalMagic;
}

Result<JournalIndex> index_journal(std::span<const std::byte> file) {
    const Result<size_t> start = check_file_header(file, kJournals);
    if (!start) {
        return start.error();
    }
    const Context context(ZSTD_createDCtx());
    if (context == nullptr) {
        return Error("out of memory");
    }
    SectionList list = list_sections(file, *start, kJournals);
    JournalIndex index;
    std::vector<std::byte> raw;
    for (const Section& section : list.sections) {
        if (static_cast<JournalSection>(section.header.kind) != JournalSection::kBlock) {
            continue;
        }
        JournalPart part;
        part.offset_bytes = static_cast<uint64_t>(section.stored.data() - file.data()) - sizeof(SectionHeader);
        part.size_bytes = sizeof(SectionHeader) + section.stored.size();
        std::string problem = implausible(section, kMaxSectionRawBytes);
        problem = problem.empty() ? unpack_beginning(context.get(), section, raw) : problem;
        problem = problem.empty() ? read_part(raw, part) : problem;
        if (problem.empty()) {
            index.parts.push_back(std::move(part));
        } else {
            index.problems.push_back(in_section(section.number, problem));
        }
    }
    index.problems.insert(index.problems.end(), list.problems.begin(), list.problems.end());
    return index;
}

Result<MarkerBlock> read_block(std::span<const std::byte> bytes) {
    const SectionList list = list_sections(bytes, 0, kJournals);
    const Context context(ZSTD_createDCtx());
    if (list.sections.empty() || context == nullptr) {
        return Error(list.problems.empty() ? "out of memory" : list.problems.front());
    }
    const Section& section = list.sections.front();
    std::vector<std::byte> raw;
    std::string problem = implausible(section, kMaxSectionRawBytes);
    if (problem.empty()) {
        raw.resize(section.header.raw_bytes);
        problem = unpack(context.get(), section, raw.data());
    }
    MarkerBlock block;
    if (problem.empty() && !BlockReader().read(raw, block)) {
        problem = kMisfit;
    }
    return problem.empty() ? Result<MarkerBlock>(std::move(block)) : Error(problem);
}

}  // namespace titan::format
