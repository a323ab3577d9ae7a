// As much of a document as a screen takes: the verdict first, then what tells most, then how to see the rest.
#pragma once

#include <string>

#include "document.h"

namespace titan::analyzer {

// style.rows lines at most, as a terminal of style.width columns counts them; all of the document where that fits.
// `more`: the command that shows all.
std::string screenful(Document document, const TextStyle& style, const std::string& more);

}  // namespace titan::analyzer
