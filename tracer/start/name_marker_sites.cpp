#include "name_marker_sites.h"

#include "base/map_private.h"
#include "base/text.h"
#include "modules.h"

namespace titan::tracer {
namespace {

struct Room {
    Module modules[4096];
    char maps[64 << 10];
};
// Taken once, as the session starts: later there may be none, and what the program may have then is the program's.
constinit Room* room = nullptr;

struct Place {
    char text[kMaxStringBytes + 1];
};

Place place_of(const Module& module, uint64_t address) {
    Place place;
    TextWriter writer(place.text, sizeof(place.text));
    writer.format("0x%lx ", address - module.bias);
    for (uint32_t i = 0; i < module.build_id_bytes; ++i) {
        writer.format("%02x", static_cast<unsigned>(module.build_id[i]));
    }
    writer.text(module.build_id_bytes != 0 ? " " : "- ");
    writer.text(module.path);
    return place;
}

}  // namespace

void name_marker_sites(Session& session, uint64_t& looked_at) {
    const uint64_t used = load_field(session.marker_sites_used);
    room = room == nullptr ? map_private<Room>() : room;
    if (used == looked_at || room == nullptr) {
        return;
    }
    looked_at = used;
    ModuleList list{};
    session.marker_sites.each_unnamed([&](uint64_t address, format::MarkerSiteRecord& site) {
        if (list.modules == nullptr) {
            list = {room->modules, sizeof(room->modules) / sizeof(room->modules[0]), 0};
            list_modules(list, room->maps, sizeof(room->maps));
        }
        if (const Module* const module = list.find(address); module != nullptr) {
            store_field(site.place, session.strings.intern(place_of(*module, address).text));
        }
    });
    if (list.modules != nullptr) {
        release_pages(room, sizeof(Room));
    }
}

}  // namespace titan::tracer
