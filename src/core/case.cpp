// Case lines: printing, parsing, inference of outputs.
#include "weft/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace weft {
namespace {

// Reads one word of a line, and knows where it is.
class Scanner {
   public:
    Scanner(std::string_view line, std::size_t at, std::size_t end) : line_(line), at_(at), end_(end) {}

    bool done() const { return at_ == end_; }
    bool take(char c) {
        const bool found = at_ < end_ && line_[at_] == c;
        at_ += found ? 1 : 0;
        return found;
    }
    void expect(char c) {
        if (!take(c)) fail(fmt::format("expected '{}'", c));
    }
    std::string_view word() {  // letters, digits, underscores
        const std::size_t begin = at_;
        while (at_ < end_ && (std::isalnum(static_cast<unsigned char>(line_[at_])) != 0 || line_[at_] == '_'))
            ++at_;
        return line_.substr(begin, at_ - begin);
    }
    std::string_view rest() const { return line_.substr(at_, end_ - at_); }
    std::int64_t integer() {
        std::int64_t value = 0;
        const auto [end, status] = std::from_chars(line_.data() + at_, line_.data() + end_, value);
        if (status != std::errc{} || value < 0) fail("expected a whole number");
        at_ = static_cast<std::size_t>(end - line_.data());
        return value;
    }
    std::vector<std::int64_t> integers(char close) {
        std::vector<std::int64_t> values;
        if (take(close)) return values;
        do {
            values.push_back(integer());
            if (values.size() > kMaxRank) fail(fmt::format("more than {} axes", kMaxRank));
        } while (take(','));
        expect(close);
        return values;
    }
    [[noreturn]] void fail(const std::string& what) const {
        throw Error(ErrorCode::invalid_argument, "case", "",
                    fmt::format("{} at column {}:\n  {}\n  {:>{}}", what, at_ + 1, line_, '^', at_ + 1));
    }

   private:
    std::string_view line_;
    std::size_t at_, end_;
};

bool is_too_large(const TensorSpec& spec) {
    return spec.offset > kMostElements || weft::is_too_large(spec.shape, spec.stride);
}

std::string all_dtypes() {
    std::string text;
    for (int i = 0; i < kDTypeCount; ++i)
        text += (i > 0 ? ", " : "") + std::string(name(static_cast<DType>(i)));
    return text;
}

TensorSpec parse_tensor(Scanner& in, const Contract& contract) {
    TensorSpec spec;
    spec.present = true;
    if (in.take('@')) {
        spec.alias = contract.find_field(in.word());
        if (spec.alias < 0) in.fail("no such field to share memory with");
        return spec;
    }
    const auto dtype = parse_dtype(in.word());
    if (!dtype) in.fail(fmt::format("expected a dtype ({})", all_dtypes()));
    spec.dtype = *dtype;
    if (in.done()) return spec;  // the shape is to be inferred
    in.expect('[');
    spec.shape = in.integers(']');
    if (in.take('{')) spec.stride = in.integers('}');
    if (!spec.stride.empty() && spec.stride.size() != spec.shape.size()) in.fail("one stride an axis");
    if (in.take('+')) spec.offset = in.integer();
    if (is_too_large(spec)) in.fail("the tensor is too large");
    if (spec.offset * bits(spec.dtype) % 8 != 0) in.fail("an element that starts inside a byte");
    if (spec.shape.empty()) spec.shape = {1};  // a scalar is one element
    return spec;
}

double parse_option(Scanner& in, const Option& option) {
    const std::string_view text = in.rest();
    if (option.kind == Option::Kind::choice) {
        const auto it = std::find(option.choices.begin(), option.choices.end(), text);
        if (it == option.choices.end())
            in.fail(fmt::format("expected one of {}", fmt::join(option.choices, ", ")));
        return static_cast<double>(it - option.choices.begin());
    }
    if (option.kind == Option::Kind::boolean) {
        if (text != "true" && text != "false") in.fail("expected true or false");
        return text == "true" ? 1 : 0;
    }
    double value = 0;
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (status != std::errc{} || end != text.data() + text.size()) in.fail("expected a number");
    if (option.kind == Option::Kind::real) value = static_cast<float>(value);
    if (option.kind == Option::Kind::integer && value != std::floor(value))
        in.fail("expected a whole number");
    if (!(value >= option.low && value <= option.high)) {
        in.fail(fmt::format("expected a value in [{}, {}]", option.low, option.high));
    }
    return value;
}

std::string print_option(const Option& option, double value) {
    switch (option.kind) {
        case Option::Kind::choice: return option.choices[static_cast<std::size_t>(value)];
        case Option::Kind::boolean: return value != 0 ? "true" : "false";
        case Option::Kind::integer: return fmt::format("{}", static_cast<std::int64_t>(value));
        case Option::Kind::real: return fmt::format("{}", static_cast<float>(value));
    }
    return {};
}

std::string print_tensor(const TensorSpec& spec, const Contract& contract) {
    if (spec.alias >= 0) return "@" + contract.fields()[static_cast<std::size_t>(spec.alias)].name;
    std::string text = fmt::format("{}[{}]", name(spec.dtype), fmt::join(spec.shape, ","));
    if (!spec.stride.empty()) text += fmt::format("{{{}}}", fmt::join(spec.stride, ","));
    if (spec.offset != 0) text += fmt::format("+{}", spec.offset);
    return text;
}

// Addresses apart, aligned and never dereferenced, for checks without memory. As near as those of one card, where what
// is there could be on one: some kernels ask how far two matrices are.
std::vector<void*> made_up_addresses(const std::vector<TensorSpec>& tensors) {
    constexpr std::int64_t kOfOneCard = std::int64_t{1} << 32;  // elements
    std::vector<void*> addresses;
    std::uintptr_t next = std::uintptr_t{1} << 52;
    for (const TensorSpec& tensor : tensors) {
        addresses.push_back(reinterpret_cast<void*>(next));
        if (!tensor.present) continue;
        next += std::uintptr_t{1} << (tensor.span() <= kOfOneCard ? 37 : 53);
    }
    return addresses;
}

// An output's dtype that a line leaves open: what another field's dtype says, else the first field's, if it may have that.
DType usual_dtype(const Case& c, std::size_t field, DType first) {
    for (const Relation& relation : c.contract().relations()) {
        const TensorSpec& other = c.tensors[static_cast<std::size_t>(relation.other)];
        if (relation.kind != Relation::Kind::dtype_beside || relation.field != static_cast<int>(field) ||
            !other.present)
            continue;
        if (const auto fitting = relation.beside(other.dtype); !fitting.empty()) return fitting.front();
    }
    const DTypeSet dtypes = c.contract().fields()[field].dtypes;
    for (int d = 0; !dtypes.contains(first) && d < kDTypeCount; ++d) first = static_cast<DType>(d);
    return first;
}

}  // namespace

Tensor TensorSpec::over(void* base, Device device) const {
    Tensor t =
        stride.empty() ? Tensor(base, dtype, shape, device) : Tensor(base, dtype, shape, stride, device);
    if (base != nullptr) t.data = t.at(offset);
    return t;
}

std::int64_t TensorSpec::span() const { return offset + over(nullptr, kCpu).span(); }

Case::Case(const OpEntry& op) : op_(&op) {
    tensors.resize(contract().fields().size());
    for (const Option& option : contract().options()) options.push_back(option.initial);
}

Case Case::parse(std::string_view line) {
    std::size_t at = 0;
    auto next_word = [&] {
        while (at < line.size() && line[at] == ' ') ++at;
        const std::size_t begin = at;
        while (at < line.size() && line[at] != ' ') ++at;
        return std::pair(begin, at);
    };
    const auto [name_begin, name_end] = next_word();
    const OpEntry* op = find_op(line.substr(name_begin, name_end - name_begin));
    if (op == nullptr) Scanner(line, name_begin, name_end).fail("no such op (`weft list` shows them)");
    Case c(*op);
    const Contract& contract = c.contract();
    std::vector<bool> seen(contract.options().size());
    while (true) {
        const auto [begin, end] = next_word();
        if (begin == end) break;
        Scanner in(line, begin, end);
        const std::string_view key = in.word();
        const int field = contract.find_field(key), option = contract.find_option(key);
        if (field < 0 && option < 0) {
            Scanner(line, begin, end)
                .fail(fmt::format("{} has no field or option of this name", contract.name()));
        }
        in.expect('=');
        if (field >= 0) {
            TensorSpec& spec = c.tensors[static_cast<std::size_t>(field)];
            if (spec.present) in.fail("given twice");
            spec = parse_tensor(in, contract);
            if (!in.done()) in.fail("unexpected text");
        } else {
            if (seen[static_cast<std::size_t>(option)]) in.fail("given twice");
            seen[static_cast<std::size_t>(option)] = true;
            c.options[static_cast<std::size_t>(option)] =
                parse_option(in, contract.options()[static_cast<std::size_t>(option)]);
        }
    }
    c.infer();
    return c;
}

void Case::infer() {
    const auto& fields = contract().fields();
    AxisMatcher matcher(contract().axes());
    for (std::size_t i = 0; i < contract().options().size(); ++i) {
        const int axis = contract().options()[i].axis;
        if (axis >= 0)
            matcher.sizes.size[static_cast<std::size_t>(axis)] = static_cast<std::int64_t>(options[i]);
    }
    for (std::size_t i = 0; i < fields.size(); ++i) {
        if (tensors[i].present && tensors[i].alias < 0)
            Contract::size_by_dtype(fields[i], tensors[i].dtype, matcher.sizes);
    }
    for (TensorSpec& spec : tensors) {  // a shared field takes over what it shares
        if (spec.alias < 0) continue;
        const auto target = static_cast<std::size_t>(spec.alias);
        if (tensors[target].alias >= 0 || !tensors[target].present) {
            throw Error(ErrorCode::invalid_argument, contract().name(), fields[target].name,
                        "can't be shared: it is absent, or shares another's memory itself");
        }
        const int alias = spec.alias;
        spec = tensors[target];
        spec.alias = alias;
    }
    std::vector<Tensor> views(fields.size());
    std::vector<std::string> problems(fields.size());  // for check() to report, unless a shape hangs on one
    for (int pass = 0; pass < 2; ++pass) {             // the second sees axes that later fields bound
        for (std::size_t i = 0; i < fields.size(); ++i) {
            if (!tensors[i].present || tensors[i].shape.empty()) continue;
            views[i] = tensors[i].over(nullptr, kCpu);
            problems[i] = matcher.match(pattern(i), views[i]);
        }
    }
    const auto first =
        std::find_if(tensors.begin(), tensors.end(), [](const TensorSpec& t) { return t.present; });
    for (std::size_t i = 0; i < fields.size(); ++i) {
        TensorSpec& spec = tensors[i];
        if (!spec.present) {
            if (first == tensors.end() || fields[i].optional || fields[i].role != Role::out) continue;
            spec.present = true;
            spec.dtype = usual_dtype(*this, i, first->dtype);
        }
        if (spec.shape.empty() && !matcher.shape(fields[i].pattern, spec.shape)) {
            for (std::size_t other = 0; other < fields.size(); ++other) {
                if (!problems[other].empty())
                    throw Error(ErrorCode::invalid_argument, contract().name(), fields[other].name,
                                problems[other]);
            }
            throw Error(ErrorCode::invalid_argument, contract().name(), fields[i].name,
                        fmt::format("its shape {} doesn't follow from the other fields; write it out",
                                    fields[i].axes));
        }
        if (spec.shape.empty()) spec.shape = {1};  // a scalar is one element, as where it is written out
        if (is_too_large(spec)) {
            throw Error(ErrorCode::invalid_argument, contract().name(), fields[i].name,
                        fmt::format("its shape [{}] is too large", fmt::join(spec.shape, ",")));
        }
    }
}

std::string Case::line() const {
    std::string text = contract().name();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!tensors[i].present) continue;
        text += fmt::format(" {}={}", contract().fields()[i].name, print_tensor(tensors[i], contract()));
    }
    for (std::size_t i = 0; i < options.size(); ++i) {
        const Option& option = contract().options()[i];
        if (options[i] != option.initial)
            text += fmt::format(" {}={}", option.name, print_option(option, options[i]));
    }
    return text;
}

void Case::bind(void* call, const std::vector<void*>& bases, Device device) const {
    contract().construct(call);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorSpec& spec = tensors[i];
        if (!spec.present) continue;
        const auto owner = spec.alias < 0 ? i : static_cast<std::size_t>(spec.alias);
        Contract::tensor(call, contract().fields()[i]) = spec.over(bases[owner], device);
    }
    for (std::size_t i = 0; i < options.size(); ++i) Contract::set(call, contract().options()[i], options[i]);
}

void Case::with_call(Device device, const std::function<void(const void*)>& use) const {
    const std::vector<void*> bases = made_up_addresses(tensors);
    std::vector<std::max_align_t> call(contract().size() / sizeof(std::max_align_t) + 1);
    bind(call.data(), bases, device);
    use(call.data());
}

const AxisPattern& Case::pattern(std::size_t field) const {
    return contract().pattern(contract().fields()[field],
                              [&](int i) { return tensors[static_cast<std::size_t>(i)].present; });
}

AxisSizes Case::check() const {
    AxisSizes sizes;
    with_call(kCpu, [&](const void* call) { sizes = contract().check(call); });
    return sizes;
}

Case Case::of(const OpEntry& op, const void* call) {
    Case c(op);
    const auto& fields = c.contract().fields();
    for (std::size_t i = 0; i < fields.size(); ++i) {
        const Tensor& t = Contract::tensor(call, fields[i]);
        if (!t) continue;
        TensorSpec& spec = c.tensors[i];
        spec.present = true;
        spec.dtype = t.dtype;
        spec.shape.assign(t.shape, t.shape + t.rank);
        if (!t.is_dense()) spec.stride.assign(t.stride, t.stride + t.rank);
        if (t.rank == 0) spec.shape = {1};
        const auto misalignment = reinterpret_cast<std::uintptr_t>(t.data) % 16;  // what kernels can tell
        spec.offset = static_cast<std::int64_t>(misalignment) * 8 / bits(t.dtype);
        for (std::size_t j = 0; j < fields.size() && fields[i].writes(); ++j) {
            if (j == i || (j > i && fields[j].writes())) continue;
            const Tensor& other = Contract::tensor(call, fields[j]);
            if (other && other.data == t.data && t.data != nullptr && c.tensors[j].alias < 0 &&
                other.dtype == t.dtype) {
                spec.alias = static_cast<int>(j);
            }
        }
    }
    for (std::size_t i = 0; i < c.options.size(); ++i)
        c.options[i] = Contract::get(call, c.contract().options()[i]);
    return c;
}

}  // namespace weft
