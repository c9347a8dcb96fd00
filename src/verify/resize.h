// Axes of a drawn case whose size an option says where the dtype of no field does.
#pragma once

#include <algorithm>
#include <vector>

#include "weft/case.h"

namespace weft {

// Which fields are there, of which dtypes, is known only once their relations hold: until then the scale of another format, that
// is gone since, may have said the size. Fields of other shapes become dense.
inline void resize(Case& drawn, AxisMatcher& matcher) {
    const auto& fields = drawn.contract().fields();
    for (std::size_t option = 0; option < drawn.options.size(); ++option) {
        const int axis = drawn.contract().options()[option].axis;
        const auto sizes_it = [&](const Field& f) { return f.sized_axis == axis; };
        if (axis < 0 || std::none_of(fields.begin(), fields.end(), sizes_it)) continue;
        matcher.sizes.size[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(drawn.options[option]);
        for (std::size_t i = 0; i < fields.size(); ++i) {
            if (drawn.tensors[i].present && sizes_it(fields[i]))
                Contract::size_by_dtype(fields[i], drawn.tensors[i].dtype, matcher.sizes);
        }
        for (std::size_t i = 0; i < fields.size(); ++i) {
            const std::vector<AxisExpression>& axes = fields[i].pattern.axes;
            const auto has_it = [&](const AxisExpression& a) { return a.mentions(axis); };
            TensorSpec& spec = drawn.tensors[i];
            std::vector<std::int64_t> shape;
            if (spec.present && std::any_of(axes.begin(), axes.end(), has_it) &&
                matcher.shape(fields[i].pattern, shape) && shape != spec.shape)
                spec.shape = shape, spec.stride.clear();
        }
    }
}

}  // namespace weft
