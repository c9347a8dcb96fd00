// Drawing axes, dtypes, optional fields, strides, options.
#include "bench/draw.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "verify/random.h"
#include "verify/resize.h"
#include "verify/usual.h"
#include "weft/error.h"

namespace weft {
namespace {

// Sizes that an axis of this name has in models: log-uniform between two, or one of a list.
struct Range {
    std::int64_t low, high;
    std::vector<std::int64_t> of = {};
};

const std::map<std::string, Range, std::less<>>& ranges() {
    static const std::map<std::string, Range, std::less<>> kRanges = {
        {"dim", {64, 16384}},
        {"hidden", {64, 16384}},
        {"n", {16, 16384}},
        {"k", {16, 16384}},
        {"m", {1, 65536}},
        {"rows", {4, 128}},
        {"cols", {4, 128}},
        {"tokens", {1, 16384}},
        {"q_tokens", {1, 8192}},
        {"kv_tokens", {16, 16384}},
        {"cache_tokens", {1024, 32768}},
        {"table", {2048, 131072}},
        {"vocab", {1024, 262144}},
        {"batch", {1, 64}},
        {"views", {1, 16}},
        {"heads", {0, 0, {1, 2, 4, 8, 12, 14, 16, 24, 28, 32, 40, 64}}},
        {"q_heads", {0, 0, {4, 8, 12, 14, 16, 24, 28, 32, 40, 64}}},
        {"kv_heads", {0, 0, {1, 2, 4, 8, 8, 12, 16, 24, 32}}},
        {"groups", {0, 0, {2, 4, 8, 8, 16, 32}}},
        {"group", {0, 0, {1, 1, 2, 4, 7, 8}}},
        {"head_dim", {0, 0, {64, 64, 128, 128, 128, 72, 80, 96, 112, 120, 192, 256}}},
        {"v_dim", {0, 0, {64, 128, 128, 256, 512}}},
        {"half", {0, 0, {16, 32, 32, 36, 40, 48, 64, 64, 64, 128}}},
        {"pages", {64, 1024}},
        {"max_pages", {1, 256}},
        {"sequences", {1, 64}},
        {"page_size", {0, 0, {16, 16, 16, 64}}},
        {"channels", {0, 0, {3, 3, 3, 4, 16, 64, 128, 320, 512}}},
    };
    return kRanges;
}

// What checkpoints and activations are stored in.
int weight_of(DType dtype) {
    switch (dtype) {
        case DType::bf16: return 60;
        case DType::fp16: return 15;
        case DType::fp32: return 12;
        case DType::fp8_e4m3: return 20;
        case DType::int64:
        case DType::int4: return 20;
        default: return 5;
    }
}

class UserDraw {
   public:
    UserDraw(const OpEntry& op, Random& random)
        : case_(op), contract_(op.contract()), random_(random), matcher_(contract_.axes()) {}

    Case run() {
        options();
        sizes();
        odd_ = chance(20);
        channels_last_ = chance(15);
        type_ = any_dtype(contract_.fields().front().dtypes);
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
            const Field& f = contract_.fields()[i];
            case_.tensors[i].present = !f.optional || chance(presence(f));
        }
        empty_axes();
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
            if (case_.tensors[i].present) field(i);
        }
        for (const Relation& relation : contract_.relations()) {
            complete(relation);
            relate(relation);
        }
        resize(case_, matcher_);
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) share(i);
        return case_;
    }

   private:
    bool chance(int percent) { return random_.below(100) < percent; }

    std::int64_t log_uniform(std::int64_t low, std::int64_t high) {
        constexpr std::int64_t kMultiples[] = {1, 2, 8, 8, 8, 64, 64, 64, 256, 256};
        const double ratio = static_cast<double>(high) / static_cast<double>(low);
        const double drawn = static_cast<double>(low) * std::pow(ratio, random_.uniform());
        const std::int64_t of = random_.pick(kMultiples);
        const auto multiple = std::llround(drawn / static_cast<double>(of)) * of;
        return std::clamp<std::int64_t>(multiple > 0 ? multiple : std::llround(drawn), low, high);
    }

    std::int64_t size_of(int axis) {
        const auto known = ranges().find(contract_.axes().all()[static_cast<std::size_t>(axis)]);
        if (known != ranges().end()) {
            const Range& range = known->second;
            return range.of.empty() ? log_uniform(range.low, range.high) : random_.pick(range.of);
        }
        // An axis of another name: what tests draw, where that is small numbers, else a length.
        const std::vector<std::int64_t>& tested = contract_.sizes(axis);
        const std::int64_t most = *std::max_element(tested.begin(), tested.end());
        return most <= 16 ? std::max<std::int64_t>(1, random_.pick(tested)) : log_uniform(16, 8192);
    }

    void options() {
        for (std::size_t i = 0; i < case_.options.size(); ++i) {
            const Option& option = contract_.options()[i];
            if (!option.samples.empty() && (option.axis >= 0 || chance(25)))
                case_.options[i] = random_.pick(option.samples);
            if (option.kind == Option::Kind::real) case_.options[i] = static_cast<float>(case_.options[i]);
            if (option.axis < 0) continue;
            auto& size = matcher_.sizes.size[static_cast<std::size_t>(option.axis)];
            size =
                option.samples.empty() ? size_of(option.axis) : static_cast<std::int64_t>(case_.options[i]);
            case_.options[i] = static_cast<double>(size);
        }
    }

    void sizes() {
        for (std::size_t axis = 0; axis < contract_.axes().all().size(); ++axis) {
            auto& size = matcher_.sizes.size[axis];
            if (size == kUnknown) size = size_of(static_cast<int>(axis));
        }
        draw_alike(contract_.axes(), matcher_.sizes, random_, 95);
        draw_half(contract_.axes(), matcher_.sizes, random_);
        AxisSizes& sizes = matcher_.sizes;
        sizes.leading_rank = chance(25) ? 2 : 1;
        sizes.leading[0] = log_uniform(1, sizes.leading_rank == 1 ? 65536 : 64);
        sizes.leading[1] = log_uniform(1, 8192);
    }

    DType any_dtype(DTypeSet set) {
        int all = 0;
        for (int i = 0; i < kDTypeCount; ++i) {
            if (set.contains(static_cast<DType>(i))) all += weight_of(static_cast<DType>(i));
        }
        auto left = random_.below(all);
        for (int i = 0;; ++i) {
            const auto dtype = static_cast<DType>(i);
            if (set.contains(dtype) && (left -= weight_of(dtype)) < 0) return dtype;
        }
    }

    // Most tensors are stored as the activations are; a vector of parameters is in fp32 in many checkpoints, a
    // result is often narrower.
    DType dtype(const Field& f) {
        const bool vector = !f.pattern.ellipsis && f.pattern.axes.size() == 1 && f.role == Role::in;
        const int alike = vector ? 60 : f.role == Role::out ? 65 : 88;
        if (f.dtypes.contains(type_) && chance(alike)) return type_;
        if (vector && f.dtypes.contains(DType::fp32) && chance(80)) return DType::fp32;
        // One checkpoint has one 16-bit type, with exceptions.
        const DType other = type_ == DType::bf16 ? DType::fp16 : DType::bf16;
        DType drawn = any_dtype(f.dtypes);
        while (kHalf.contains(type_) && drawn == other && chance(85)) drawn = any_dtype(f.dtypes);
        return drawn;
    }

    // Norms nearly always have weights; what is stored in 8 bits has a scale, what is not has none.
    int presence(const Field& f) const {
        const bool narrow = bits(type_) <= 8;
        if (f.fill.kind == Fill::Kind::scale) return narrow || scales_output(f) ? 85 : 4;
        if (f.name == "weight") return 90;
        if (is_needed(f)) return 60;  // what others hang on
        const auto optional = std::count_if(contract_.fields().begin(), contract_.fields().end(),
                                            [](const Field& other) { return other.optional; });
        return static_cast<int>(std::clamp<std::int64_t>(160 / optional, 12, 40));  // one or two of many
    }
    bool is_needed(const Field& f) const {
        const auto& relations = contract_.relations();
        return std::any_of(relations.begin(), relations.end(), [&](const Relation& r) {
            return r.kind == Relation::Kind::needs && contract_.find_field(f.name) == r.other;
        });
    }
    bool scales_output(const Field& f) const {
        const auto& relations = contract_.relations();
        return std::any_of(relations.begin(), relations.end(), [&](const Relation& r) {
            return r.kind == Relation::Kind::scale_of && contract_.find_field(f.name) == r.field;
        });
    }

    // An axis that only fields have which are not there is empty: what a concatenation lacks.
    void empty_axes() {
        for (std::size_t axis = 0; axis < contract_.axes().all().size(); ++axis) {
            bool there = false, lacking = false;
            for (std::size_t i = 0; i < case_.tensors.size(); ++i) {
                for (const AxisExpression& e : contract_.fields()[i].pattern.axes) {
                    if (!e.is_name() || e.axis() != static_cast<int>(axis)) continue;
                    (case_.tensors[i].present ? there : lacking) = true;
                }
            }
            if (lacking && !there) matcher_.sizes.size[axis] = 0;
        }
    }

    void field(std::size_t i) {
        const Field& f = contract_.fields()[i];
        TensorSpec& spec = case_.tensors[i];
        spec.dtype = i == 0 ? type_ : dtype(f);
        Contract::size_by_dtype(f, spec.dtype, matcher_.sizes);
        const AxisPattern& pattern = case_.pattern(i);
        matcher_.shape(pattern, spec.shape);
        if (pattern.broadcast) broadcast(spec.shape);
        if (spec.shape.empty()) spec.shape = {1};  // a scalar is one element
        if (bits(spec.dtype) < 8 || spec.shape == std::vector<std::int64_t>{1})
            return;  // packed pairs: dense
        if (chance(odd_ ? 15 : 1)) spec.offset = 1 + random_.below(9);
        const bool last = channels_last_ && f.layout == Layout::strided;
        if (last || (f.layout != Layout::dense && chance(odd_ ? 40 : 4))) strides(f.layout, spec);
    }

    // From x's leading axes and a row's elements to one row for all, one a batch, or one a row.
    void broadcast(std::vector<std::int64_t>& shape) {
        const bool batches = shape.size() > 2;
        const auto kind = random_.below(10);
        if (kind < 4) {
            shape = {shape.back()};
        } else if (kind < 8 && batches) {
            shape = kind < 6 ? std::vector<std::int64_t>{shape.front(), shape.back()}
                             : std::vector<std::int64_t>{shape.front(), 1, shape.back()};
        }
    }

    // Of [N, C, ...] the channels of a point side by side.
    static void channels_last(TensorSpec& spec) {
        spec.stride.assign(spec.shape.size(), 1);
        std::int64_t next = spec.shape[1];
        for (std::size_t axis = spec.shape.size(); axis-- > 0;) {
            if (axis == 1) continue;
            spec.stride[axis] = next;
            next *= spec.shape[axis];
        }
    }

    // Rows cut from wider ones (a packed projection), padded ones, or a transposed matrix.
    void strides(Layout layout, TensorSpec& spec) {
        if (spec.shape.size() < 2) return;
        const std::size_t last = spec.shape.size() - 1;
        if (layout == Layout::strided && channels_last_ && last > 1) return channels_last(spec);
        spec.stride.assign(spec.shape.size(), 1);
        if (layout == Layout::strided && last == 1 && chance(50)) {
            spec.stride = {1, spec.shape[0]};
            return;
        }
        const std::int64_t dim = spec.shape[last];
        const std::int64_t gaps[] = {dim, 2 * dim, 64, 8, 1 + random_.below(7)};
        spec.stride[last - 1] = dim + random_.pick(gaps);
        for (std::size_t axis = last - 1; axis-- > 0;)
            spec.stride[axis] = spec.stride[axis + 1] * spec.shape[axis + 1];
    }

    // Codes of int4 say nothing without the scales of their groups, beside which every other call has zero points.
    void complete(const Relation& relation) {
        const auto field = static_cast<std::size_t>(relation.field);
        const TensorSpec& other = case_.tensors[static_cast<std::size_t>(relation.other)];
        if (relation.kind != Relation::Kind::dtype_beside || case_.tensors[field].present || !other.present ||
            other.dtype != DType::int4 || relation.beside(other.dtype).empty())
            return;
        if (contract_.fields()[field].fill.kind != Fill::Kind::scale && chance(50)) return;
        case_.tensors[field].present = true;
        this->field(field);
    }

    void relate(const Relation& relation) {
        TensorSpec& spec = case_.tensors[static_cast<std::size_t>(relation.field)];
        TensorSpec& other = case_.tensors[static_cast<std::size_t>(relation.other)];
        const Field& f = contract_.fields()[static_cast<std::size_t>(relation.other)];
        if (relation.kind == Relation::Kind::needs && !other.present) spec = {};
        if (!spec.present || !other.present) return;
        switch (relation.kind) {
            case Relation::Kind::scale_of:
                if (!(kNarrow | DType::int4).contains(other.dtype)) spec = {};
                return;
            case Relation::Kind::excludes: (f.optional && chance(50) ? other : spec) = {}; return;
            case Relation::Kind::same_dtype: spec.dtype = other.dtype; return;
            case Relation::Kind::dtype_beside: return beside(relation, spec, other.dtype);
            default: return;
        }
    }

    // One of the dtypes that the relation allows, and the shape that follows from it.
    void beside(const Relation& relation, TensorSpec& spec, DType other) {
        const auto fitting = relation.beside(other);
        if (std::find(fitting.begin(), fitting.end(), spec.dtype) != fitting.end()) return;
        spec = {};
        if (fitting.empty()) return;
        spec.present = true;
        spec.dtype = random_.pick(fitting);
        const auto field = static_cast<std::size_t>(relation.field);
        Contract::size_by_dtype(contract_.fields()[field], spec.dtype, matcher_.sizes);
        matcher_.shape(case_.pattern(field), spec.shape);
    }

    void share(std::size_t i) {
        const Field& f = contract_.fields()[i];
        TensorSpec& spec = case_.tensors[i];
        if (!spec.present || f.in_place_of.empty() || !chance(10)) return;
        const auto target = static_cast<std::size_t>(contract_.find_field(random_.pick(f.in_place_of)));
        const TensorSpec& other = case_.tensors[target];
        const bool fits = other.present && other.alias < 0 && f.dtypes.contains(other.dtype) &&
                          other.dtype == spec.dtype && other.shape == spec.shape;
        const bool taken = std::any_of(case_.tensors.begin(), case_.tensors.end(), [&](const TensorSpec& t) {
            return t.present && t.alias == static_cast<int>(target);
        });
        if (!fits || taken) return;
        spec = other;
        spec.alias = static_cast<int>(target);
    }

    Case case_;
    const Contract& contract_;
    Random& random_;
    AxisMatcher matcher_;
    DType type_ = DType::fp32;
    bool odd_ = false;  // a case with views or odd addresses in it
    bool channels_last_ = false;
};

bool acceptable(const Case& c, const DrawLimits& limits) {
    double memory = 0;
    for (const TensorSpec& spec : c.tensors) {
        if (spec.present) memory += static_cast<double>(bytes(spec.dtype, spec.span()));
    }
    if (memory > 8 * limits.most_bytes) return false;
    try {
        c.check();
    } catch (const Error&) {
        return false;
    }
    Work work;
    c.with_call(kCpu, [&](const void* call) { work = c.contract().work(call); });
    return work.bytes >= limits.least_bytes && work.bytes <= limits.most_bytes &&
           work.flops <= limits.most_flops && (own_kernels(c.op()).empty() || !kernel_for(c).empty());
}

std::optional<Case> draw(const OpEntry& op, Random& random, const DrawLimits& limits) {
    constexpr int kAttempts = 20'000;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
        Case c = UserDraw(op, random).run();
        if (acceptable(c, limits)) return c;
    }
    return std::nullopt;
}

}  // namespace

std::vector<Case> draw_cases(const std::vector<const OpEntry*>& ops, int cases, std::uint64_t seed,
                             const DrawLimits& limits) {
    std::vector<Case> drawn;
    std::vector<Random> numbers;  // an op's cases do not depend on which other ops are asked for
    for (const OpEntry* op : ops) {
        std::uint64_t stream = 0;
        for (const char c : op->contract().name()) stream = mix(stream ^ static_cast<unsigned char>(c));
        numbers.emplace_back(seed, stream);
    }
    for (int i = 0; i < cases; ++i) {
        for (std::size_t op = 0; op < ops.size(); ++op) {
            if (auto c = draw(*ops[op], numbers[op], limits)) drawn.push_back(std::move(*c));
        }
    }
    return drawn;
}

const std::vector<AnyImplementation>& own_kernels(const OpEntry& op) {
    const auto& emulated = op.implementations[static_cast<int>(DeviceType::emulator)];
    return emulated.empty() ? op.implementations[static_cast<int>(DeviceType::cuda)] : emulated;
}

std::string kernel_for(const Case& c) {
    const DeviceInfo& device = *find_device("h100");
    std::string taken;
    c.with_call({device.type, 0}, [&](const void* call) {
        for (const AnyImplementation& i : own_kernels(c.op())) {
            if (i.decline(call, device) != nullptr) continue;
            taken = i.name + " " + i.config(call, device);
            return;
        }
    });
    return taken;
}

}  // namespace weft
