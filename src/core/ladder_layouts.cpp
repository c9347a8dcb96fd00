// The list of layouts.
#include "core/ladder_layouts.h"

namespace weft::ladder {
namespace {

// Filled by a static initialiser, read-only afterwards.
std::vector<Layout>& shelf() {
    static std::vector<Layout> filled;
    return filled;
}

}  // namespace

std::vector<Layout> layouts() { return shelf(); }

const Layout* find_layout(std::string_view name) {
    for (const Layout& layout : shelf()) {
        if (layout.name == name) return &layout;
    }
    return nullptr;
}

RegisterLayouts::RegisterLayouts(std::initializer_list<Layout> layouts) {
    shelf().insert(shelf().end(), layouts.begin(), layouts.end());
}

}  // namespace weft::ladder
