// An op's page, for people: rendered from its contract alone.
#pragma once

#include <string>

#include "weft/op.h"

namespace weft::cli {

std::string text_page(const OpEntry& op);      // for a terminal, with the implementations of this build
std::string markdown_page(const OpEntry& op);  // for docs/ops: the same in every build

}  // namespace weft::cli
