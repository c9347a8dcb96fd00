// Shared memory of strided views, as a question about sums: is there x with 0 <= x[k] <= most[k] and
// low <= sum of step[k]·x[k] <= high?
#include "core/overlap.h"

#include <algorithm>
#include <numeric>

namespace weft {
namespace {

__extension__ typedef __int128 Wide;  // products of two addresses

std::int64_t floor_of(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }  // b > 0
std::int64_t ceil_of(std::int64_t a, std::int64_t b) { return -floor_of(-a, b); }
std::int64_t mod_of(std::int64_t a, std::int64_t b) { return a - floor_of(a, b) * b; }

// The least z >= 0 with low <= a·z mod m <= high, or -1; 0 <= a < m, 0 <= low <= high < m. Each step halves m, as
// Euclid's do.
Wide first_within(Wide a, Wide m, Wide low, Wide high) {
    if (low == 0) return 0;
    if (a == 0) return -1;
    if (2 * a > m) return first_within(m - a, m, m - high, m - low);
    const Wide z = (low + a - 1) / a;
    if (z * a <= high) return z;
    // Once around or more: a·z = m·y + something in [low, high], so m·y mod a lies in -[low, high].
    const auto minus = [a](Wide value) { return (a - value % a) % a; };
    const Wide y = first_within(m % a, a, minus(high), minus(low));
    return y < 0 ? -1 : (low + m * y + a - 1) / a;
}

struct Term {
    std::int64_t step, most;  // step > 0
};

class Sums {
   public:
    void add(std::int64_t step, std::int64_t most) {
        if (step > 0 && most > 0) terms_[count_++] = {step, most};
    }

    bool reach(std::int64_t low, std::int64_t high) {
        std::sort(terms_, terms_ + count_, [](const Term& a, const Term& b) { return a.step > b.step; });
        int distinct = 0;
        for (int k = 0; k < count_; ++k) {
            if (distinct > 0 && terms_[distinct - 1].step == terms_[k].step) {
                terms_[distinct - 1].most += terms_[k].most;
            } else {
                terms_[distinct++] = terms_[k];
            }
        }
        count_ = distinct;
        // Steps no longer than the interval leave no hole: they make it longer.
        while (count_ > 0 && terms_[count_ - 1].step <= high - low + 1) {
            --count_;
            low -= terms_[count_].step * terms_[count_].most;
        }
        total_[count_] = divisor_[count_] = 0;
        for (int k = count_ - 1; k >= 0; --k) {
            total_[k] = total_[k + 1] + terms_[k].step * terms_[k].most;
            divisor_[k] = std::gcd(divisor_[k + 1], terms_[k].step);
        }
        budget_ = kBudget;
        return reach_from(0, low, high);
    }

   private:
    static constexpr int kBudget = 4000;

    bool reach_from(int k, std::int64_t low, std::int64_t high) {
        if (high < 0 || low > total_[k]) return false;
        if (low <= 0 || high >= total_[k]) return true;  // all x at 0, or at their most
        if (floor_of(high, divisor_[k]) * divisor_[k] < low) return false;
        if (k == count_ - 1) return true;
        if (k == count_ - 2) return reach_by_two(terms_[k], terms_[k + 1], low, high);
        const auto [step, most] = terms_[k];
        const std::int64_t first = std::max<std::int64_t>(0, ceil_of(low - total_[k + 1], step));
        for (std::int64_t x = first; x <= std::min(most, floor_of(high, step)); ++x) {
            if (--budget_ < 0 || reach_from(k + 1, low - step * x, high - step * x)) return true;
        }
        return false;
    }

    static bool reach_by_two(Term a, Term b, std::int64_t low, std::int64_t high) {
        const std::int64_t of_b = b.step * b.most;
        const std::int64_t first = std::max<std::int64_t>(0, ceil_of(low - of_b, a.step));
        const std::int64_t last = std::min(a.most, floor_of(high, a.step));
        if (first > last) return false;
        // A multiple of b's step must lie in [low - a.step·x, high - a.step·x] for one such x. Then b has one there:
        // an interval that reaches beyond b's sums, below 0 or above of_b, has 0 or of_b in it.
        const std::int64_t over = mod_of(a.step * first - low, b.step), width = high - low;
        if (over <= width) return true;
        const Wide z = first_within(a.step % b.step, b.step, b.step - over, b.step - over + width);
        return z >= 0 && z <= last - first;
    }

    Term terms_[2 * kMaxRank + 2];
    std::int64_t total_[2 * kMaxRank + 3], divisor_[2 * kMaxRank + 3];
    int count_ = 0, budget_ = 0;
};

// A view as places in bytes: its axes, and how many bytes it has at each place.
struct Places {
    explicit Places(const Tensor& t) : width(bytes(t.dtype, 1)) {
        const bool pairs = bits(t.dtype) < 8;
        for (int i = 0; i < t.rank; ++i) {
            if (t.shape[i] > 1) axes[count++] = {t.stride[i] * (pairs ? 1 : width), t.shape[i] - 1};
        }
        for (int i = 0; i < count; ++i) reach += axes[i].step * axes[i].most;
        if (pairs) halve();
    }

    Term axes[kMaxRank];
    int count = 0;
    std::int64_t width, reach = 0;  // reach: from the first place to the last

   private:
    // Two elements a byte: one axis may step by single elements, all others must step by whole bytes; else every
    // byte between the first and the last counts.
    void halve() {
        reach /= 2;
        const auto odd = std::count_if(axes, axes + count, [](const Term& a) { return a.step % 2 != 0; });
        for (int i = 0; i < count; ++i) {
            if (axes[i].step == 1 && odd == 1) {
                axes[i].most /= 2;
            } else if (axes[i].step % 2 == 0) {
                axes[i].step /= 2;
            } else {
                axes[0] = {1, reach};
                count = 1;
                return;
            }
        }
    }
};

}  // namespace

bool overlap(const Tensor& a, const Tensor& b) {
    const Places of_a(a), of_b(b);
    const auto at = [](const Tensor& t) { return reinterpret_cast<std::uintptr_t>(t.data); };
    // By extents first: most tensors are apart.
    if (at(a) + static_cast<std::uintptr_t>(of_a.reach + of_a.width) <= at(b)) return false;
    if (at(b) + static_cast<std::uintptr_t>(of_b.reach + of_b.width) <= at(a)) return false;
    Sums sums;
    for (int i = 0; i < of_a.count; ++i) sums.add(of_a.axes[i].step, of_a.axes[i].most);
    for (int i = 0; i < of_b.count; ++i) sums.add(of_b.axes[i].step, of_b.axes[i].most);
    // A place of b minus a place of a, counted from a's last place, so that every term adds.
    const auto apart = static_cast<std::int64_t>(at(b) - at(a)) - of_a.reach;
    return sums.reach(1 - of_b.width - apart, of_a.width - 1 - apart);
}

bool overlaps_itself(const Tensor& t) {
    Term axes[kMaxRank];
    int count = 0;
    for (int i = 0; i < t.rank; ++i) {
        if (t.shape[i] > 1 && t.stride[i] == 0) return true;
        if (t.shape[i] <= 1) continue;
        int at = count++;  // by stride, the smallest first
        for (; at > 0 && axes[at - 1].step > t.stride[i]; --at) axes[at] = axes[at - 1];
        axes[at] = {t.stride[i], t.shape[i] - 1};
    }
    std::int64_t within = 0;  // how far the axes so far reach
    bool nested = true;
    for (int i = 0; i < count; ++i) {
        nested = nested && axes[i].step > within;
        within += axes[i].step * axes[i].most;
    }
    if (nested) return false;
    // Two indices of one place differ by d, where sum step·d = 0. Its first d that is not 0 may be taken as positive.
    for (int first = count - 1; first > 0; --first) {
        Sums sums;
        std::int64_t low = -axes[first].step;
        sums.add(axes[first].step, axes[first].most - 1);
        for (int i = 0; i < first; ++i) {
            sums.add(axes[i].step, 2 * axes[i].most);
            low += axes[i].step * axes[i].most;
        }
        if (sums.reach(low, low)) return true;
    }
    return false;
}

}  // namespace weft
