#include "built_in_page.h"

namespace titan::analyzer {

std::string_view built_in_page() {
#ifdef TITAN_PAGE
    return
#include TITAN_PAGE
        ;
#else
    return {};
#endif
}

}  // namespace titan::analyzer
