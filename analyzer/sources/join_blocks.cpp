#include "join_blocks.h"

#include <algorithm>

namespace titan::analyzer {

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
