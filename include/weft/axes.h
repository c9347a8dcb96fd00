// Shapes by axis name: "... dim", "tokens (q_heads+2*kv_heads)*head_dim".
#pragma once

#include <array>
#include <cstdint>
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
    const Tensor* leading = nullptr;  // a tensor whose leading axes are what "..." stands for
    int leading_rank = 0;
};

// One axis of a pattern: a sum of products of axes and numbers, in postfix form.
class AxisExpression {
   public:
    static AxisExpression parse(std::string_view text, AxisNames& names);

    std::int64_t evaluate(const AxisSizes& sizes) const;  // kUnknown where an axis is
    // If exactly one axis is unknown and `value` determines it (a bare name, or a factor of a product), sets
    // it.
    bool solve(std::int64_t value, AxisSizes& sizes) const;
    bool mentions(int axis) const;
    // Is it this axis, or a product that begins with it? Then each of its indices is one stretch.
    bool leads_with(int axis) const;
    bool is_name() const { return code_.size() == 1 && code_[0].op == Op::axis; }
    int axis() const { return static_cast<int>(code_[0].value); }
    const std::string& text() const { return text_; }

   private:
    enum class Op : std::uint8_t { number, axis, add, multiply };
    struct Code {
        Op op;
        std::int64_t value;
    };
    friend class AxisParser;
    std::string text_;
    std::vector<Code> code_;
};

// A field's shape.
struct AxisPattern {
    bool ellipsis = false;  // begins with "...": any leading axes, the same in every field that has it
    std::vector<AxisExpression> axes;

    static AxisPattern parse(std::string_view text, AxisNames& names);
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
    const AxisNames& names_;
};

}  // namespace weft
