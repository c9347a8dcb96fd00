// Axis patterns: parsing, binding, evaluating.
#include "weft/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <limits>

#include "weft/error.h"
#include "weft/row_map.h"

namespace weft {

int AxisNames::find(std::string_view name) const {
    const auto it = std::find(names_.begin(), names_.end(), name);
    return it == names_.end() ? -1 : static_cast<int>(it - names_.begin());
}

int AxisNames::add(std::string_view name) {
    if (const int i = find(name); i >= 0) return i;
    if (names_.size() == kMaxAxes) throw Error(ErrorCode::internal, "", "", "an op has too many axes");
    names_.emplace_back(name);
    return static_cast<int>(names_.size()) - 1;
}

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

std::int64_t sum_of(std::int64_t a, std::int64_t b) {
    std::int64_t sum = 0;
    return __builtin_add_overflow(a, b, &sum) ? kMost : sum;
}
std::int64_t product_of(std::int64_t a, std::int64_t b) {
    std::int64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? kMost : product;
}
std::int64_t groups_of(std::int64_t a, std::int64_t b) { return b <= 0 ? 0 : a / b + (a % b > 0 ? 1 : 0); }

}  // namespace

// Recursive descent over: sum = product {"+" product}; product = factor {"*" factor}; factor = number | name |
// "..." | "(" sum ")" | "ceil(" sum "/" sum ")" | "pad(" sum "," sum ")".
class AxisParser {
   public:
    AxisParser(std::string_view text, AxisNames& names) : text_(text), names_(names) {}

    void parse(AxisExpression& into) {
        sum();
        if (at_ != text_.size()) fail();
        into.code_ = std::move(code_);
        into.rounded_ = rounded_;
    }

   private:
    using Op = AxisExpression::Op;

    void sum() {
        product();
        while (take("+")) {
            product();
            operation(Op::add);
        }
    }
    void product() {
        factor();
        while (take("*")) {
            factor();
            operation(Op::multiply);
        }
    }
    void factor() {
        if (take("(")) {
            sum();
            expect(")");
        } else if (take("ceil(")) {
            rounded(Op::ceil, "/");
        } else if (take("pad(")) {
            rounded(Op::pad, ",");
        } else if (take("...")) {
            operand(Op::leading, 0);
        } else {
            word();
        }
    }
    void rounded(Op op, std::string_view between) {
        ++rounding_;
        sum();
        expect(between);
        sum();
        expect(")");
        --rounding_;
        operation(op);
    }
    void word() {
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
            ++at_;
        const std::string_view word = text_.substr(begin, at_ - begin);
        if (word.empty()) fail();
        if (!std::isdigit(static_cast<unsigned char>(word[0]))) {
            const int axis = names_.add(word);
            if (rounding_ > 0) rounded_ |= std::uint32_t{1} << axis;
            return operand(Op::axis, axis);
        }
        std::int64_t number = 0;
        const auto [end, status] = std::from_chars(word.data(), word.data() + word.size(), number);
        if (status != std::errc{} || end != word.data() + word.size()) fail();
        operand(Op::number, number);
    }
    void operand(Op op, std::int64_t value) {
        if (++depth_ > AxisExpression::kMaxDepth) fail();
        code_.push_back({op, value});
    }
    void operation(Op op) {
        --depth_;
        code_.push_back({op, 0});
    }
    bool take(std::string_view token) {
        const bool found = text_.substr(at_).starts_with(token);
        at_ += found ? token.size() : 0;
        return found;
    }
    void expect(std::string_view token) {
        if (!take(token)) fail();
    }
    [[noreturn]] void fail() const {
        throw Error(ErrorCode::internal, "", "", fmt::format("axis expression '{}' at {}", text_, at_));
    }

    std::string_view text_;
    AxisNames& names_;
    std::size_t at_ = 0;
    int rounding_ = 0, depth_ = 0;  // enclosing ceil and pad; operands on evaluate's stack
    std::uint32_t rounded_ = 0;
    std::vector<AxisExpression::Code> code_;
};

AxisExpression AxisExpression::parse(std::string_view text, AxisNames& names) {
    AxisExpression expression;
    expression.text_ = text;
    AxisParser(text, names).parse(expression);
    return expression;
}

std::int64_t AxisExpression::evaluate(const AxisSizes& sizes) const {
    std::int64_t stack[kMaxDepth];
    int top = -1;
    for (const Code& c : code_) {
        switch (c.op) {
            case Op::number: stack[++top] = c.value; continue;
            case Op::axis: stack[++top] = sizes.size[static_cast<std::size_t>(c.value)]; break;
            case Op::leading: stack[++top] = sizes.rows(); break;
            default: {
                const std::int64_t b = stack[top--], a = stack[top];
                stack[top] = c.op == Op::add        ? sum_of(a, b)
                             : c.op == Op::multiply ? product_of(a, b)
                             : c.op == Op::ceil     ? groups_of(a, b)
                                                    : product_of(groups_of(a, b), b);
                continue;
            }
        }
        if (stack[top] == kUnknown) return kUnknown;
    }
    return stack[0];
}

std::int64_t AxisSizes::rows() const {
    if (leading_rank < 0) return kUnknown;
    std::int64_t rows = 1;
    for (const std::int64_t size : between()) rows = product_of(rows, size);
    return rows;
}

bool AxisExpression::mentions(int axis) const {
    return std::any_of(code_.begin(), code_.end(),
                       [&](const Code& c) { return c.op == Op::axis && c.value == axis; });
}

bool AxisExpression::mentions_leading() const {
    return std::any_of(code_.begin(), code_.end(), [](const Code& c) { return c.op == Op::leading; });
}

bool AxisExpression::leads_with(int axis) const {
    const auto times = std::count_if(code_.begin(), code_.end(),
                                     [&](const Code& c) { return c.op == Op::axis && c.value == axis; });
    const bool product = std::all_of(code_.begin(), code_.end(), [](const Code& c) {
        return c.op == Op::number || c.op == Op::axis || c.op == Op::multiply;
    });
    return product && times == 1 && code_[0].op == Op::axis && code_[0].value == axis;
}

std::int64_t AxisExpression::step(int axis) const {
    if (!rounds(axis)) return 1;
    const bool alone = code_.size() == 3 && code_[0].op == Op::axis && code_[1].op == Op::number;
    return alone && (code_[2].op == Op::ceil || code_[2].op == Op::pad) ? code_[1].value : 0;
}

bool AxisExpression::solve(std::int64_t value, AxisSizes& sizes) const {
    int unknown = -1;
    for (const Code& c : code_) {
        if (c.op != Op::axis || sizes.size[static_cast<std::size_t>(c.value)] != kUnknown) continue;
        if (unknown >= 0) return false;
        unknown = static_cast<int>(c.value);
    }
    if (unknown < 0 || rounds(unknown)) return false;
    if (mentions_leading() && sizes.leading_rank < 0) return false;
    // The expression is linear in an axis that occurs once: two evaluations give slope and intercept.
    std::int64_t& size = sizes.size[static_cast<std::size_t>(unknown)];
    size = 0;
    const std::int64_t at0 = evaluate(sizes);
    size = 1;
    const std::int64_t slope = evaluate(sizes) - at0;
    if (slope > 0 && value >= at0 && (value - at0) % slope == 0) {
        size = (value - at0) / slope;
        if (evaluate(sizes) == value)
            return true;  // which it is not where the axis occurs twice in a product
    }
    size = kUnknown;
    return false;
}

AxisPattern AxisPattern::parse(std::string_view text, AxisNames& names) {
    AxisPattern pattern;
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t end = std::min(text.find(' ', at), text.size());
        const std::string_view word = text.substr(at, end - at);
        if (word == "..." || word == "~...") {
            if (pattern.ellipsis) throw Error(ErrorCode::internal, "", "", "'...' comes twice");
            pattern.ellipsis = true;
            pattern.broadcast = word[0] == '~';
            pattern.before = static_cast<int>(pattern.axes.size());
        } else if (!word.empty()) {
            pattern.axes.push_back(AxisExpression::parse(word, names));
        }
        at = end + 1;
    }
    if (pattern.broadcast && pattern.axes.size() != 1) {
        throw Error(ErrorCode::internal, "", "", fmt::format("'{}': one axis follows \"~...\"", text));
    }
    return pattern;
}

bool AxisMatcher::broadcasts(const AxisPattern& pattern, const Tensor& tensor) {
    const std::int64_t dim = pattern.axes[0].evaluate(sizes);
    if (sizes.leading_rank < 0 || sizes.leading_rank >= kMaxRank || dim == kUnknown) return false;
    Tensor rows;  // what it broadcasts to
    rows.rank = sizes.leading_rank + 1;
    std::copy(sizes.between().begin(), sizes.between().end(), rows.shape);
    rows.shape[sizes.leading_rank] = dim;
    if (!map_rows(tensor, rows)) return false;
    const std::int64_t cut = frames(tensor, rows);
    if (cut == 0) return true;
    if (sizes.frames != 0 && sizes.frames != cut) return false;
    sizes.frames = cut;
    return true;
}

std::string AxisMatcher::match(const AxisPattern& pattern, const Tensor& tensor) {
    const int named = static_cast<int>(pattern.axes.size());
    const int leading = tensor.rank - named;
    auto mismatch = [&] {
        const std::span shape(tensor.shape, static_cast<std::size_t>(std::max(0, tensor.rank)));
        return fmt::format("expected {}, got [{}]", describe(pattern), fmt::join(shape, ", "));
    };
    if (pattern.broadcast) return broadcasts(pattern, tensor) ? std::string() : mismatch();
    if (tensor.rank == 0 && named == 1 && pattern.axes[0].text() == "1")
        return {};  // a scalar is one element
    const bool one = tensor.rank == 1 && tensor.shape[0] == 1;
    if (pattern.ellipsis && named == 0 && sizes.leading_rank == 0 && one) return {};
    if (pattern.ellipsis ? leading < 0 : leading != 0) return mismatch();
    if (pattern.ellipsis) {
        const std::span between(tensor.shape + pattern.before, static_cast<std::size_t>(leading));
        if (sizes.leading_rank < 0) {
            std::copy(between.begin(), between.end(), sizes.leading.begin());
            sizes.leading_rank = leading;
        } else if (!std::ranges::equal(between, sizes.between())) {
            return mismatch();
        }
    }
    for (int i = 0; i < named; ++i) {
        const AxisExpression& axis = pattern.axes[static_cast<std::size_t>(i)];
        const std::int64_t got = tensor.shape[pattern.place(i, tensor.rank)];
        if (const std::int64_t expected = axis.evaluate(sizes); expected != kUnknown) {
            if (got != expected) return mismatch();
        } else if (!axis.solve(got, sizes) && axis.is_name()) {
            return mismatch();
        }
    }
    return {};
}

bool AxisMatcher::shape(const AxisPattern& pattern, std::vector<std::int64_t>& out) const {
    out.clear();
    if (pattern.ellipsis && sizes.leading_rank < 0) return false;
    for (const AxisExpression& axis : pattern.axes) {
        out.push_back(axis.evaluate(sizes));
        if (out.back() == kUnknown) return false;
    }
    if (pattern.ellipsis)
        out.insert(out.begin() + pattern.before, sizes.between().begin(), sizes.between().end());
    return true;
}

std::string AxisMatcher::describe(const AxisPattern& pattern) const {
    std::vector<std::string> parts;
    for (const AxisExpression& axis : pattern.axes) {
        const std::int64_t size = axis.evaluate(sizes);
        const bool literal = std::all_of(axis.text().begin(), axis.text().end(),
                                         [](unsigned char c) { return std::isdigit(c); });
        parts.push_back(size == kUnknown || literal ? axis.text() : fmt::format("{}={}", axis.text(), size));
    }
    if (pattern.ellipsis) {
        const std::string dots = pattern.broadcast ? "what broadcasts to ..." : "...";
        const bool known = sizes.leading_rank >= 0;
        parts.insert(parts.begin() + pattern.before,
                     known ? fmt::format("{}=({})", dots, fmt::join(sizes.between(), ", ")) : dots);
    }
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace weft
