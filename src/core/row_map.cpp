// Row maps: an operand's leading axes beside x's.
#include "weft/row_map.h"

#include <algorithm>

namespace weft {
namespace {

// Cuts the last axis of a map into `frames` parts.
void cut(RowMap& map, std::int64_t frames) {
    const int last = map.axes - 1;
    const std::int64_t part = map.size[last] / frames;
    map.size[last] = frames;
    map.size[map.axes] = part;
    map.stride[map.axes] = map.stride[last];
    map.stride[last] *= part;
    ++map.axes;
}

// Whether axis `a` and the one inside it are one axis for this map.
bool folds(const RowMap& map, int a) { return map.stride[a] == map.stride[a + 1] * map.size[a + 1]; }

void remove(RowMap& map, int a) {
    std::copy(map.size + a + 1, map.size + map.axes, map.size + a);
    std::copy(map.stride + a + 1, map.stride + map.axes, map.stride + a);
    --map.axes;
}

}  // namespace

std::int64_t RowMap::offset(std::int64_t row) const {
    std::int64_t at = 0;
    for (int a = axes - 1; a >= 0; --a) {
        at += row % size[a] * stride[a];
        row /= size[a];
    }
    return at;
}

std::int64_t row_count(const Tensor& tensor) {
    std::int64_t rows = 1;
    for (int axis = 0; axis + 1 < tensor.rank; ++axis) rows *= tensor.shape[axis];
    return rows;
}

std::int64_t frames(const Tensor& operand, const Tensor& x) {
    const bool framed =
        operand.rank == x.rank + 1 && operand.rank >= 3 && operand.shape[operand.rank - 2] == 1;
    const std::int64_t parts = framed ? operand.shape[operand.rank - 3] : 0;
    return parts > 1 ? parts : 0;
}

std::optional<RowMap> map_rows(const Tensor& operand, const Tensor& x) {
    if (x.rank < 1 || operand.rank < 0) return std::nullopt;
    RowMap map;
    map.axes = x.rank - 1;
    std::copy(x.shape, x.shape + map.axes, map.size);
    const std::int64_t dim = x.shape[map.axes];
    const std::int64_t last = operand.rank == 0 ? 1 : operand.shape[operand.rank - 1];
    if (last != dim && last != 1) return std::nullopt;
    map.single = last == 1 && dim != 1;

    const std::int64_t parts = frames(operand, x);
    if (parts > 0) {
        if (map.size[map.axes - 1] % parts != 0) return std::nullopt;
        cut(map, parts);
    }
    for (int a = 0; a < operand.rank - 1; ++a) {
        if (operand.shape[a] == 1) continue;  // its rows are shared
        if (a >= map.axes || operand.shape[a] != map.size[a]) return std::nullopt;
        map.stride[a] = operand.stride[a];
    }
    return map;
}

bool fold_maps(std::span<RowMap* const> maps) {
    int axes = 0;
    for (const RowMap* map : maps) axes = std::max(axes, map->axes);
    for (RowMap* map : maps) {
        if (map->axes == axes) continue;
        const auto framed =
            std::find_if(maps.begin(), maps.end(), [&](RowMap* m) { return m->axes == axes; });
        cut(*map, (*framed)->size[axes - 2]);
    }
    for (const RowMap* map : maps) {
        if (!std::equal(map->size, map->size + axes, maps[0]->size)) return false;
    }
    for (int a = axes - 1; a >= 0; --a) {  // from the inside, so that what was folded may fold again
        if (maps[0]->size[a] == 1) {
            for (RowMap* map : maps) remove(*map, a);
        } else if (a + 1 < maps[0]->axes &&
                   std::all_of(maps.begin(), maps.end(), [&](const RowMap* m) { return folds(*m, a); })) {
            for (RowMap* map : maps) {
                map->size[a + 1] *= map->size[a];
                remove(*map, a);
            }
        }
    }
    return true;
}

}  // namespace weft
