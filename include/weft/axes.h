// Shapes by axis name: "... dim", "tokens (q_heads+2*kv_heads)*head_dim", "pad(...,128) ceil(dim/16)", "~... dim".
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tensor.h"

namespace weft {

inline constexpr int kMaxAxes = 16;
inline constexpr std::int64_t kUnknown = -1;

// The axis names of one op, numbered.
class AxisNames {
   public:
    int find(std::string_view name) const;  // -1 where there is none
    int add(std::string_view name);         // its number, new or old
    const std::vector<std::string>& all() const { return names_; }

   private:
    std::vector<std::string> names_;
};

// The sizes of an op's axes in one call.
struct AxisSizes {
    AxisSizes() { size.fill(kUnknown); }
    std::array<std::int64_t, kMaxAxes> size;
    std::array<std::int64_t, kMaxRank> leading{};  // what "..." stands for
    int leading_rank = kUnknown;                   // so many of them
    std::int64_t rows() const;                     // their product, or kUnknown
    std::span<const std::int64_t> between() const {
        return {leading.data(), static_cast<std::size_t>(std::max(0, leading_rank))};
    }
    std::int64_t frames = 0;  // that fields of "~..." cut the last leading axis into; 0: none does
};

// One axis of a pattern, in postfix form: sums of products of axes, numbers and
//   ...         the product of the sizes that "..." stands for: the number of rows of "... dim"
//   ceil(a/b)   how many groups of b hold a: the quotient, rounded up; 0 where b is 0
//   pad(a,b)    a rounded up to a multiple of b: ceil(a/b)*b
// Sizes beyond int64 count as its largest number.
class AxisExpression {
   public:
    static AxisExpression parse(std::string_view text, AxisNames& names);

    std::int64_t evaluate(const AxisSizes& sizes) const;  // kUnknown where an axis is
    // If exactly one axis is unknown and `value` determines it (a bare name, or a factor of a product), sets
    // it. What ceil or pad round is never determined: several sizes give the same value.
    bool solve(std::int64_t value, AxisSizes& sizes) const;
    bool mentions(int axis) const;
    bool mentions_leading() const;                                       // "..." inside of it
    bool rounds(int axis) const { return (rounded_ >> axis & 1) != 0; }  // does it stand inside ceil or pad?
    // Is it this axis, or a product that begins with it? Then each of its indices is one stretch.
    bool leads_with(int axis) const;
    // How many indices of the axis a range must begin at a multiple of, so that a range of this expression is its own:
    // 16 of "ceil(dim/16)" and "pad(dim,16)", 1 where nothing is rounded; 0 where no number does.
    std::int64_t step(int axis) const;
    bool is_name() const { return code_.size() == 1 && code_[0].op == Op::axis; }
    int axis() const { return static_cast<int>(code_[0].value); }
    const std::string& text() const { return text_; }

   private:
    enum class Op : std::uint8_t { number, axis, leading, add, multiply, ceil, pad };
    struct Code {
        Op op;
        std::int64_t value;
    };
    static constexpr int kMaxDepth = 8;  // operands that wait for an operator
    friend class AxisParser;
    std::string text_;
    std::vector<Code> code_;
    std::uint32_t rounded_ = 0;  // a bit for each axis inside ceil or pad
    static_assert(kMaxAxes <= 32);
};

// A field's shape.
struct AxisPattern {
    bool ellipsis = false;  // has "...": any axes, the same in every field that has it
    int before = 0;         // so many of `axes` stand before the "...": 2 of "N C ..."
    // Begins with "~...": leading axes, and one named axis, that broadcast to those of the fields with "..." before it
    // (weft/row_map.h says which shapes do).
    bool broadcast = false;
    std::vector<AxisExpression> axes;  // without the "..."

    static AxisPattern parse(std::string_view text, AxisNames& names);
    // Where axis i of `axes` is in a shape of this rank.
    int place(int i, int rank) const {
        return !ellipsis || i < before ? i : rank - static_cast<int>(axes.size()) + i;
    }
};

// Binds axis names to sizes, field by field, and says where they disagree.
class AxisMatcher {
   public:
    explicit AxisMatcher(const AxisNames& names) : names_(names) {}

    AxisSizes sizes;

    // Empty if the shape fits (or may still fit), else "expected …, got …". Composite axes that can't be
    // evaluated yet are looked at again by `finish`.
    std::string match(const AxisPattern& pattern, const Tensor& tensor);
    // The shape that the pattern has under the bound sizes; empty optional where an axis is unknown.
    bool shape(const AxisPattern& pattern, std::vector<std::int64_t>& out) const;
    std::string describe(const AxisPattern& pattern) const;  // "[tokens=4, dim=64]"

   private:
    bool broadcasts(const AxisPattern& pattern, const Tensor& tensor);

    const AxisNames& names_;
};

}  // namespace weft
