// What the elements of an input are: as generated cases draw them, and as a call must have them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "weft/axes.h"
#include "weft/tensor.h"

namespace weft {

// The kinds that have a rule hold a call to it wherever the host can see the elements: those of CPU tensors.
struct Fill {
    enum class Kind : std::uint8_t {
        normal,
        uniform,
        scale,
        mask,       // 0, or any other byte
        positions,  // integers in [0, high); rule, where `bound` is known: in [0, bound)
        index,      // rule: in [0, bound)
        count,      // rule: in [0, bound]; a number of rows that the device knows
        offsets,    // rule: the first is 0, the last is bound, none is below the one before: `cu_seqlens`
        ends,   // rule: none is negative or below the one before, the last is at most bound: where groups end
        slots,  // rule: in [0, bound), no two the same: where rows of a paged cache go
        parts,  // rule: not negative, and their sum is bound: rows of ragged groups
        lengths,  // integers in [0, bound] and some beyond, which the op clamps
    };
    Kind kind = Kind::normal;
    double low = 0, high = 1;  // uniform, scale: the range; normal: mean and standard deviation
    std::string bound;         // an axis, or an expression of axes: "pages*page_size"
    bool or_none = false;      // -1 may stand where there is nothing
    bool defined_outside =
        false;  // on a device, what breaks the rule has a defined result: cases draw it too
    std::optional<AxisExpression> limit;  // `bound`, compiled

    static Fill normal(double mean = 0, double deviation = 1);
    static Fill uniform(double low, double high);
    static Fill scale(double low = 0.01, double high = 0.1);
    static Fill mask();
    static Fill positions(double high = 4096, std::string_view bound = {});
    static Fill index(std::string_view bound);
    static Fill count(std::string_view bound);
    static Fill offsets(std::string_view bound);
    static Fill ends(std::string_view bound);
    static Fill slots(std::string_view bound);
    static Fill parts(std::string_view bound);
    static Fill lengths(std::string_view bound);
    Fill&& or_minus_one() && {
        or_none = true;
        return std::move(*this);
    }
    Fill&& outside_is_defined() && {
        defined_outside = true;
        return std::move(*this);
    }

    // The rule in words; empty where there is none.
    std::string rule() const;
    // What `bound` is in a call; kUnknown where there is none, or a field that says it is absent.
    std::int64_t limit_of(const AxisSizes& sizes) const { return limit ? limit->evaluate(sizes) : kUnknown; }
    // Are there `count` values that keep the rule?
    bool exists(std::int64_t count, std::int64_t limit) const;
    // What of a tensor in host memory breaks the rule: "expected ..., got ..."; empty where nothing does.
    std::string breach(const Tensor& tensor, std::int64_t limit) const;
};

}  // namespace weft
