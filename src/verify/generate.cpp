// Drawing cases: axes, options, dtypes, optional fields, strides, offsets, shared memory.
#include "verify/generate.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "verify/resize.h"
#include "verify/usual.h"

namespace weft {
namespace {

class Draw {
   public:
    Draw(const OpEntry& op, Random& random, bool large = false)
        : case_(op),
          contract_(op.contract()),
          random_(random),
          matcher_(contract_.axes()),
          large_(large),
          tidy_(chance(40)),
          plain_(chance(30)) {}

    Case run() {
        options();
        sizes();
        if (large_) lengthen();
        dtype_ = any_dtype(contract_.fields().front().dtypes);
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) field(i);
        for (const Relation& relation : contract_.relations()) relate(relation);
        resize(case_, matcher_);
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) pick(i);
        for (std::size_t i = 0; i < case_.tensors.size(); ++i) share(i);
        return case_;
    }

   private:
    bool chance(int percent) { return random_.below(100) < percent; }

    void options() {
        for (std::size_t i = 0; i < case_.options.size(); ++i) {
            const Option& option = contract_.options()[i];
            if (!option.samples.empty() && chance(60)) case_.options[i] = random_.pick(option.samples);
            if (option.kind == Option::Kind::real) case_.options[i] = static_cast<float>(case_.options[i]);
            if (option.axis < 0) continue;
            auto& size = matcher_.sizes.size[static_cast<std::size_t>(option.axis)];
            size = option.samples.empty() ? random_.pick(contract_.sizes(option.axis))
                                          : static_cast<std::int64_t>(case_.options[i]);
            case_.options[i] = static_cast<double>(size);
        }
    }

    void sizes() {
        for (std::size_t axis = 0; axis < contract_.axes().all().size(); ++axis) {
            auto& size = matcher_.sizes.size[axis];
            if (size == kUnknown) {
                size = random_.pick(contract_.sizes(static_cast<int>(axis)));
                if (tidy_) size = (size + 15) / 16 * 16;
            }
            if (chance(1)) size = 0;
        }
        draw_alike(contract_.axes(), matcher_.sizes, random_, 75);
        constexpr std::int64_t kLeading[] = {1, 1, 2, 3, 4, 5, 7, 8, 17, 33, 64, 129};
        AxisSizes& all = matcher_.sizes;
        all.leading_rank = static_cast<int>(random_.below(4)) == 0 ? static_cast<int>(random_.below(4)) : 1;
        for (const Field& f : contract_.fields()) {
            if (f.pattern.ellipsis)
                all.leading_rank =
                    std::min(all.leading_rank, kMaxRank - static_cast<int>(f.pattern.axes.size()));
        }
        for (int i = 0; i < all.leading_rank; ++i) {
            all.leading[static_cast<std::size_t>(i)] =
                all.leading_rank == 1 ? random_.pick(kLeading) : 1 + random_.below(4);
        }
    }

    // One axis, or the rows, to a size by the hundred or the thousand; the others are small.
    void lengthen() {
        constexpr std::int64_t kLong[] = {300, 520, 1030, 2050, 4100, 16500, 40000, 66000};
        AxisSizes& all = matcher_.sizes;
        std::vector<std::size_t> axes;
        for (std::size_t axis = 0; axis < contract_.axes().all().size(); ++axis) {
            const auto& options = contract_.options();
            const bool fixed = std::any_of(options.begin(), options.end(),
                                           [&](const Option& o) { return o.axis == static_cast<int>(axis); });
            if (!fixed) axes.push_back(axis);
        }
        for (const std::size_t axis : axes) {
            if (chance(50)) all.size[axis] = std::min<std::int64_t>(all.size[axis], 1 + random_.below(40));
        }
        for (int i = 0; i < all.leading_rank; ++i) {
            std::int64_t& rows = all.leading[static_cast<std::size_t>(i)];
            if (chance(50)) rows = std::min<std::int64_t>(rows, 1 + random_.below(4));
        }
        const std::int64_t size = random_.pick(kLong) + random_.below(8);
        const auto choices = static_cast<std::int64_t>(axes.size()) + (all.leading_rank > 0 ? 1 : 0);
        if (choices == 0) return;
        const auto chosen = static_cast<std::size_t>(random_.below(choices));
        if (chosen < axes.size()) {
            all.size[axes[chosen]] = size;
        } else {
            all.leading[static_cast<std::size_t>(random_.below(all.leading_rank))] = size;
        }
    }

    // Mostly the first field's.
    DType dtype(DTypeSet set) {
        return set.contains(dtype_) && chance(tidy_ ? 90 : 60) ? dtype_ : any_dtype(set);
    }
    DType any_dtype(DTypeSet set) {
        DType drawn{};
        do {
            drawn = static_cast<DType>(random_.below(kDTypeCount));
        } while (!set.contains(drawn));
        return drawn;
    }

    void field(std::size_t i) {
        const Field& f = contract_.fields()[i];
        TensorSpec& spec = case_.tensors[i];
        if (f.optional && chance(plain_ ? 85 : 50)) return;
        spec.present = true;
        spec.dtype = i == 0 ? dtype_ : dtype(f.dtypes);
        Contract::size_by_dtype(f, spec.dtype, matcher_.sizes);
        const AxisPattern& pattern = case_.pattern(i);
        matcher_.shape(pattern, spec.shape);
        if (pattern.broadcast) broadcast(spec.shape);
        if (spec.shape.empty()) spec.shape = {1};  // a scalar is one element
        if (bits(spec.dtype) < 8) return;          // packed pairs: dense and aligned
        if (tidy_) return;
        if (chance(20)) spec.offset = 1 + random_.below(9);
        if (f.layout != Layout::dense && chance(25)) strides(f.layout, spec);
        const bool repeats = f.layout == Layout::inner || f.layout == Layout::strided;
        if (repeats && !f.writes() && spec.shape.size() > 1 && chance(10)) repeat(spec);
    }

    // From x's leading axes and a row's elements to a shape that broadcasts to them.
    void broadcast(std::vector<std::int64_t>& shape) {
        const auto leading = static_cast<std::int64_t>(shape.size()) - 1;
        switch (random_.below(6)) {
            case 0: return;
            case 1: shape.erase(shape.begin(), shape.end() - 1); break;
            case 2: shape.erase(shape.begin() + random_.below(leading + 1), shape.end() - 1); break;
            case 3:
                for (std::int64_t a = 0; a < leading; ++a) {
                    if (chance(50)) shape[static_cast<std::size_t>(a)] = 1;
                }
                break;
            case 4: cut(shape); break;
            default:
                if (chance(50)) shape.erase(shape.begin(), shape.end() - 1);
                shape.back() = 1;
        }
    }
    // The last leading axis in frames, as many in each field of the case.
    void cut(std::vector<std::int64_t>& shape) {
        if (shape.size() < 2) return;
        std::int64_t& tokens = shape[shape.size() - 2];
        if (frames_ == 0) {
            frames_ = 1 + random_.below(std::max<std::int64_t>(1, std::min<std::int64_t>(tokens, 8)));
        }
        if (tokens % frames_ != 0) return;
        tokens = frames_;
        shape.insert(shape.end() - 1, 1);
    }
    // One of the leading axes repeats what its first index holds.
    void repeat(TensorSpec& spec) {
        const Tensor view = spec.over(nullptr, kCpu);
        spec.stride.assign(view.stride, view.stride + view.rank);
        spec.stride[static_cast<std::size_t>(random_.below(view.rank - 1))] = 0;
    }

    // Draws that break a relation are refused; dtypes and fields that exclude each other would do so too often, and
    // what a field needs would be there almost always.
    void relate(const Relation& relation) {
        TensorSpec& spec = case_.tensors[static_cast<std::size_t>(relation.field)];
        TensorSpec& other = case_.tensors[static_cast<std::size_t>(relation.other)];
        if (relation.kind == Relation::Kind::needs && !other.present) spec = {};
        if (!spec.present || !other.present) return;
        switch (relation.kind) {
            case Relation::Kind::same_dtype:
                spec.dtype = other.dtype;
                if (bits(spec.dtype) < 8)
                    spec.offset = 0, spec.stride.clear();  // packed pairs: dense and aligned
                return;
            case Relation::Kind::dtype_beside: return draw_beside(relation, spec, other.dtype);
            case Relation::Kind::scale_of:
                if (!(kNarrow | DType::int4).contains(other.dtype)) spec = {};
                return;
            case Relation::Kind::excludes:
                if (chance(80)) (is_optional(relation.other) && chance(50) ? other : spec) = {};
                return;
            default: return;
        }
    }

    bool is_optional(int field) const { return contract_.fields()[static_cast<std::size_t>(field)].optional; }

    // One of the dtypes that the relation allows, and the shape that follows from it.
    void draw_beside(const Relation& relation, TensorSpec& spec, DType other) {
        const std::span<const DType> fitting = relation.beside(other);
        if (std::find(fitting.begin(), fitting.end(), spec.dtype) != fitting.end()) return;
        if (fitting.empty()) {
            spec = {};
            return;
        }
        const Field& f = contract_.fields()[static_cast<std::size_t>(relation.field)];
        const auto any = random_.below(static_cast<std::int64_t>(fitting.size()));
        spec = {};
        spec.present = true;
        spec.dtype = fitting[static_cast<std::size_t>(any)];
        Contract::size_by_dtype(f, spec.dtype, matcher_.sizes);
        matcher_.shape(f.pattern, spec.shape);
    }

    // What says that a field is picked may come after it, and go again.
    void pick(std::size_t i) {
        TensorSpec& spec = case_.tensors[i];
        const AxisPattern& pattern = case_.pattern(i);
        std::vector<std::int64_t> shape;
        if (contract_.fields()[i].picked_by.empty() || !spec.present || pattern.broadcast) return;
        if (!matcher_.shape(pattern, shape) || shape == spec.shape) return;
        spec.shape = std::move(shape);
        spec.stride.clear();
        const Field& f = contract_.fields()[i];
        if (f.layout != Layout::dense && !tidy_ && chance(50)) strides(f.layout, spec);
    }

    void strides(Layout layout, TensorSpec& spec) {
        if (spec.shape.empty()) return;
        spec.stride.assign(spec.shape.size(), 0);
        std::vector<std::size_t> order(spec.shape.size());  // of axes in memory, innermost first
        std::iota(order.rbegin(), order.rend(), 0);
        if (layout == Layout::strided && chance(50))
            std::reverse(order.begin(), order.end());  // a transposed view
        std::int64_t next = 1;
        for (const std::size_t axis : order) {
            spec.stride[axis] = next;
            next *= std::max<std::int64_t>(1, spec.shape[axis]);
            if (layout == Layout::strided || layout == Layout::inner ||
                axis == order.front()) {  // a gap after this axis
                next += chance(50) ? random_.below(9) : 8;
            }
        }
        if (layout == Layout::strided && chance(50)) {
            for (auto& stride : spec.stride) stride *= 2;
        }
        if (spec.over(nullptr, kCpu).is_dense()) spec.stride.clear();
    }

    void share(std::size_t i) {
        const Field& f = contract_.fields()[i];
        TensorSpec& spec = case_.tensors[i];
        if (!spec.present || f.in_place_of.empty() || !chance(30)) return;
        const auto target = static_cast<std::size_t>(contract_.find_field(random_.pick(f.in_place_of)));
        const TensorSpec& other = case_.tensors[target];
        if (!other.present || other.alias >= 0 || !f.dtypes.contains(other.dtype) ||
            other.shape != spec.shape)
            return;
        const bool taken = std::any_of(case_.tensors.begin(), case_.tensors.end(), [&](const TensorSpec& t) {
            return t.present && t.alias == static_cast<int>(target);
        });
        if (taken) return;
        spec = other;
        spec.alias = static_cast<int>(target);
    }

    Case case_;
    const Contract& contract_;
    Random& random_;
    AxisMatcher matcher_;
    DType dtype_ = DType::fp32;
    std::int64_t frames_ = 0;
    const bool large_;
    // As production calls are: whole vectors, dense, mostly one dtype. The fast kernels take little else.
    const bool tidy_;
    // With few of the optional fields, as most calls are; some kernels take no others.
    const bool plain_;
};

// Are there values for the inputs? There are no numbers below the size of an empty axis.
bool values_exist(const Case& c, const AxisSizes& sizes) {
    for (std::size_t i = 0; i < c.tensors.size(); ++i) {
        const Fill& fill = c.contract().fields()[i].fill;
        if (!c.tensors[i].present) continue;
        const std::int64_t count = c.tensors[i].over(nullptr, kCpu).numel();
        if (!fill.exists(count, fill.limit_of(sizes))) return false;
    }
    return true;
}

bool acceptable(const Case& c, const DeviceInfo& device, const GenerateLimits& limits) {
    double elements = 0;
    for (const TensorSpec& spec : c.tensors) {
        if (spec.present) elements += static_cast<double>(spec.span());
    }
    if (elements > limits.elements) return false;
    bool accepted = false;
    c.with_call({device.type, 0}, [&](const void* call) {
        try {
            if (!values_exist(c, c.contract().check(call))) return;
        } catch (const Error&) {
            return;
        }
        if (c.contract().work(call).flops > limits.flops) return;
        const auto verdicts = explain(c.op(), call, device);
        accepted =
            c.contract().is_empty(call) ||
            std::any_of(verdicts.begin(), verdicts.end(), [](const Verdict& v) { return v.reason.empty(); });
    });
    return accepted;
}

}  // namespace

std::optional<Case> generate(const OpEntry& op, const DeviceInfo& device, Random& random,
                             const GenerateLimits& limits) {
    for (int attempt = 0; attempt < 2000; ++attempt) {
        Case c = Draw(op, random).run();
        if (acceptable(c, device, limits)) return c;
    }
    return std::nullopt;
}

std::optional<Case> generate_large(const OpEntry& op, const DeviceInfo& device, Random& random,
                                   const GenerateLimits& limits) {
    const GenerateLimits most{8 * limits.elements, 8 * limits.flops};
    for (int attempt = 0; attempt < 2000; ++attempt) {
        Case c = Draw(op, random, true).run();
        if (acceptable(c, device, most)) return c;
    }
    return std::nullopt;
}

}  // namespace weft
