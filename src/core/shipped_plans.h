// The files of plans that the library was built with, as text: ops/*/plans.json (cmake/shipped_plans.cmake writes the table).
#pragma once

namespace weft {

struct ShippedFile {
    const char *path, *text;
};
extern const ShippedFile kShippedPlans[];  // the last one has no path

}  // namespace weft
