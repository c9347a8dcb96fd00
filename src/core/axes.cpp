// Axis patterns: parsing, binding, evaluating.
#include "weft/axes.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "weft/error.h"

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

// Recursive descent over: sum = product {"+" product}; product = factor {"*" factor}; factor = number | name
// | "(" sum ")".
class AxisParser {
   public:
    AxisParser(std::string_view text, AxisNames& names) : text_(text), names_(names) {}

    std::vector<AxisExpression::Code> parse() {
        sum();
        if (at_ != text_.size()) fail();
        return std::move(code_);
    }

   private:
    using Op = AxisExpression::Op;

    void sum() {
        product();
        while (take('+')) {
            product();
            code_.push_back({Op::add, 0});
        }
    }
    void product() {
        factor();
        while (take('*')) {
            factor();
            code_.push_back({Op::multiply, 0});
        }
    }
    void factor() {
        if (take('(')) {
            sum();
            if (!take(')')) fail();
            return;
        }
        const std::size_t begin = at_;
        while (at_ < text_.size() &&
               (std::isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '_'))
            ++at_;
        const std::string_view word = text_.substr(begin, at_ - begin);
        if (word.empty()) fail();
        if (std::isdigit(static_cast<unsigned char>(word[0]))) {
            code_.push_back({Op::number, std::stoll(std::string(word))});
        } else {
            code_.push_back({Op::axis, names_.add(word)});
        }
    }
    bool take(char c) {
        const bool found = at_ < text_.size() && text_[at_] == c;
        at_ += found ? 1 : 0;
        return found;
    }
    [[noreturn]] void fail() const {
        throw Error(ErrorCode::internal, "", "", fmt::format("axis expression '{}' at {}", text_, at_));
    }

    std::string_view text_;
    AxisNames& names_;
    std::size_t at_ = 0;
    std::vector<AxisExpression::Code> code_;
};

AxisExpression AxisExpression::parse(std::string_view text, AxisNames& names) {
    AxisExpression expression;
    expression.text_ = text;
    expression.code_ = AxisParser(text, names).parse();
    return expression;
}

std::int64_t AxisExpression::evaluate(const AxisSizes& sizes) const {
    std::int64_t stack[8];
    int top = 0;
    for (const Code& c : code_) {
        if (c.op == Op::number) {
            stack[top++] = c.value;
        } else if (c.op == Op::axis) {
            const std::int64_t size = sizes.size[static_cast<std::size_t>(c.value)];
            if (size == kUnknown) return kUnknown;
            stack[top++] = size;
        } else {
            --top;
            stack[top - 1] = c.op == Op::add ? stack[top - 1] + stack[top] : stack[top - 1] * stack[top];
        }
    }
    return stack[0];
}

bool AxisExpression::mentions(int axis) const {
    return std::any_of(code_.begin(), code_.end(),
                       [&](const Code& c) { return c.op == Op::axis && c.value == axis; });
}

bool AxisExpression::leads_with(int axis) const {
    const auto times = std::count_if(code_.begin(), code_.end(),
                                     [&](const Code& c) { return c.op == Op::axis && c.value == axis; });
    const bool product =
        std::none_of(code_.begin(), code_.end(), [](const Code& c) { return c.op == Op::add; });
    return product && times == 1 && code_[0].op == Op::axis && code_[0].value == axis;
}

bool AxisExpression::solve(std::int64_t value, AxisSizes& sizes) const {
    int unknown = -1;
    for (const Code& c : code_) {
        if (c.op != Op::axis || sizes.size[static_cast<std::size_t>(c.value)] != kUnknown) continue;
        if (unknown >= 0) return false;
        unknown = static_cast<int>(c.value);
    }
    if (unknown < 0) return false;
    // The expression is linear in one axis that occurs once: two evaluations give slope and intercept.
    std::int64_t& size = sizes.size[static_cast<std::size_t>(unknown)];
    size = 0;
    const std::int64_t at0 = evaluate(sizes);
    size = 1;
    const std::int64_t slope = evaluate(sizes) - at0;
    if (slope > 0 && value >= at0 && (value - at0) % slope == 0) {
        size = (value - at0) / slope;
        return true;
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
        if (word == "...") {
            pattern.ellipsis = true;
        } else if (!word.empty()) {
            pattern.axes.push_back(AxisExpression::parse(word, names));
        }
        at = end + 1;
    }
    return pattern;
}

std::string AxisMatcher::match(const AxisPattern& pattern, const Tensor& tensor) {
    const int named = static_cast<int>(pattern.axes.size());
    const int leading = tensor.rank - named;
    auto mismatch = [&] {
        const std::span shape(tensor.shape, static_cast<std::size_t>(std::max(0, tensor.rank)));
        return fmt::format("expected {}, got [{}]", describe(pattern), fmt::join(shape, ", "));
    };
    if (tensor.rank == 0 && named == 1 && pattern.axes[0].text() == "1")
        return {};  // a scalar is one element
    const bool one = tensor.rank == 1 && tensor.shape[0] == 1;
    if (pattern.ellipsis && named == 0 && sizes.leading != nullptr && sizes.leading_rank == 0 && one)
        return {};
    if (pattern.ellipsis ? leading < 0 : leading != 0) return mismatch();
    if (pattern.ellipsis) {
        if (sizes.leading == nullptr) {
            sizes.leading = &tensor;
            sizes.leading_rank = leading;
        } else if (leading != sizes.leading_rank ||
                   !std::equal(tensor.shape, tensor.shape + leading, sizes.leading->shape)) {
            return mismatch();
        }
    }
    for (int i = 0; i < named; ++i) {
        const AxisExpression& axis = pattern.axes[static_cast<std::size_t>(i)];
        const std::int64_t got = tensor.shape[leading + i];
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
    if (pattern.ellipsis) {
        if (sizes.leading == nullptr) return false;
        out.assign(sizes.leading->shape, sizes.leading->shape + sizes.leading_rank);
    }
    for (const AxisExpression& axis : pattern.axes) {
        out.push_back(axis.evaluate(sizes));
        if (out.back() == kUnknown) return false;
    }
    return true;
}

std::string AxisMatcher::describe(const AxisPattern& pattern) const {
    std::vector<std::string> parts;
    if (pattern.ellipsis) {
        parts.emplace_back("...");
        if (sizes.leading != nullptr) {
            const std::span shape(sizes.leading->shape, static_cast<std::size_t>(sizes.leading_rank));
            parts.back() += fmt::format("=({})", fmt::join(shape, ", "));
        }
    }
    for (const AxisExpression& axis : pattern.axes) {
        const std::int64_t size = axis.evaluate(sizes);
        const bool literal = std::all_of(axis.text().begin(), axis.text().end(),
                                         [](unsigned char c) { return std::isdigit(c); });
        parts.push_back(size == kUnknown || literal ? axis.text() : fmt::format("{}={}", axis.text(), size));
    }
    return fmt::format("[{}]", fmt::join(parts, ", "));
}

}  // namespace weft
