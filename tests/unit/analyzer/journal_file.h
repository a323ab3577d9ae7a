// The bytes of a journal, block by block as a tracer writes them, with an index in front where it is wanted.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "formats/container/journal_writer.h"
#include "formats/container/section_writer.h"

namespace titan::test {

class JournalFile {
  public:
    JournalFile() {
        const format::DumpHeader header =
            format::make_file_header(format::kJournalMagic, format::kJournalMajor, format::kJournalMinor);
        append(this, &header, sizeof(header));
    }

    void add_block(const format::RingHeader& header, const format::MarkerRun& run, const format::StepSums& sums,
                   const format::MarkerWords& words) {
        block_->pack(header, run, sums, words);
        format::SectionWriter sections(workspace_.data(), workspace_.size(), append, this);
        const auto bytes = block_->bytes();
        CHECK(sections.add(static_cast<format::SectionKind>(format::JournalSection::kBlock), bytes.data(), bytes.size(),
                           0));
        index_->add(header, block_->row(), sections.written_bytes());
    }
    // Puts an index of all blocks so far in front of them.
    void add_index() {
        const std::vector<std::byte> blocks(bytes_.begin() + sizeof(format::DumpHeader), bytes_.end());
        bytes_.resize(sizeof(format::DumpHeader));
        format::SectionWriter sections(workspace_.data(), workspace_.size(), append, this);
        const auto bytes = index_->pack();
        CHECK(sections.add(static_cast<format::SectionKind>(format::JournalSection::kIndex), bytes.data(), bytes.size(),
                           0));
        bytes_.insert(bytes_.end(), blocks.begin(), blocks.end());
    }
    const std::vector<std::byte>& bytes() const { return bytes_; }

  private:
    static bool append(void* self, const void* bytes, size_t size_bytes) {
        const auto* const begin = static_cast<const std::byte*>(bytes);
        std::vector<std::byte>& grown = static_cast<JournalFile*>(self)->bytes_;
        grown.insert(grown.end(), begin, begin + size_bytes);
        return true;
    }

    std::vector<std::byte> bytes_;
    std::vector<char> workspace_ = std::vector<char>(format::section_workspace_bytes());
    std::unique_ptr<format::JournalBlock> block_ = std::make_unique<format::JournalBlock>();
    std::unique_ptr<format::BlockIndex> index_ = std::make_unique<format::BlockIndex>();
};

}  // namespace titan::test
