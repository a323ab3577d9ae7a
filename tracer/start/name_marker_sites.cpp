#include "name_marker_sites.h"

#include <sys/mman.h>

#include "base/map_private.h"
#include "base/text.h"
#include "modules.h"

namespace titan::tracer {
namespace {

struct Room {
    Module modules[4096];
    char maps[64 << 10];
};

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
    if (used == looked_at) {
        return;
    }
    looked_at = used;
    Room* room = nullptr;
    ModuleList list{};
    session.marker_sites.each_unnamed([&](uint64_t address, format::MarkerSiteRecord& site) {
        if (room == nullptr) {
            room = map_private<Room>();
            if (room == nullptr) {
                return;
            }
            list = {room->modules, sizeof(room->modules) / sizeof(room->modules[0]), 0};
            list_modules(list, room->maps, sizeof(room->maps));
        }
        if (const Module* const module = list.find(address); module != nullptr) {
            store_field(site.place, session.strings.intern(place_of(*module, address).text));
        }
    });
    if (room != nullptr) {
        munmap(room, sizeof(Room));
    }
}

}  // namespace titan::tracer
