// Timing what cuBLASLt's heuristic offers.
#if WEFT_HAS_CUBLASLT
#include <algorithm>
#include <limits>

#include "ops/gemm/cublaslt_plan.h"
#include "weft/error.h"
#include "weft/graph.h"
#include "weft/memory.h"

namespace weft::gemm {
namespace {

using Candidate = cublasLtMatmulHeuristicResult_t;

// Times candidates as they will run in a model: in a graph, one after another, with weights that are not in
// L2 (copies of b in turn, twice the L2 in all). It works on a stream of its own, because a context's stream
// may be the default one, which can't be captured, and never writes over a residual.
class Timer {
   public:
    Timer(cublasLtHandle_t handle, const Plan& plan, const Gemm& op, Context& context)
        : handle_(handle),
          plan_(plan),
          stream_(context.device()),
          timing_(context.device(), stream_.get()),
          workspace_(context.scratch(kWorkspace)),
          at_{op.a.data, op.b.data, op.residual.data, op.out.data} {
        synchronize(context.device(), context.stream());
        const auto b_bytes = static_cast<std::size_t>(bytes(op.b.dtype, op.b.span()));
        const std::size_t pitch = (b_bytes + 255) / 256 * 256;  // a copy is aligned as well as b, or better
        const std::size_t wanted =
            2 * static_cast<std::size_t>(std::max<long>(context.info().l2_bytes, 1 << 20)) / pitch;
        copies_ = Buffer(context.device(), std::min<std::size_t>(wanted, 64) * pitch);
        weights_.push_back(op.b.data);
        for (std::size_t at = 0; at < copies_.size(); at += pitch) {
            weights_.push_back(static_cast<char*>(copies_.data()) + at);
            copy_bytes(static_cast<char*>(copies_.data()) + at, op.b.device, op.b.data, op.b.device, b_bytes);
        }
        if (op.residual && op.residual.data == op.out.data) {
            out_ = Buffer(context.device(), static_cast<std::size_t>(bytes(op.out.dtype, op.out.span())));
            at_.out = out_.data();
        }
    }

    // Microseconds a product; infinity where the candidate fails.
    double time(const Candidate& candidate) {
        try {
            launch(candidate, 1);  // loads the kernel
            const double once = time_us(timing_, [&] { launch(candidate, 1); });
            const int count = std::clamp(static_cast<int>(400 / std::max(once, 1.0)), 2, 48);
            const Graph graph(timing_, [&] { launch(candidate, count); });
            graph.replay();
            double best = std::numeric_limits<double>::infinity();
            for (int round = 0; round < 4; ++round)
                best = std::min(best, time_us(timing_, [&] { graph.replay(); }));
            return best / count;
        } catch (const Error&) {
            return std::numeric_limits<double>::infinity();
        }
    }

   private:
    void launch(const Candidate& candidate, int count) {
        for (int i = 0; i < count; ++i) {
            Pointers at = at_;
            at.b = weights_[next_++ % weights_.size()];
            CublasLt::get().require(multiply(handle_, plan_, candidate.algo, at, workspace_,
                                             candidate.workspaceSize, timing_.stream()),
                                    "multiplying");
        }
    }

    cublasLtHandle_t handle_;
    const Plan& plan_;
    OwnedStream stream_;
    Context timing_;
    void* workspace_;
    Pointers at_;
    Buffer copies_, out_;
    std::vector<const void*> weights_;
    std::size_t next_ = 0;
};

// The heuristic's candidates under several limits of workspace, each once.
std::vector<Candidate> candidates(cublasLtHandle_t handle, const Plan& plan, const Gemm& op) {
    std::vector<Candidate> all;
    const auto known = [&](const Candidate& r) {
        return std::any_of(all.begin(), all.end(), [&](const auto& other) {
            return std::equal(std::begin(r.algo.data), std::end(r.algo.data), std::begin(other.algo.data));
        });
    };
    for (const auto& [workspace, count] :
         {std::pair{kWorkspace, 12}, {kWorkspace / 8, 6}, {std::size_t{0}, 6}}) {
        for (const auto& r : ask(handle, plan, op, workspace, count)) {
            if (!known(r)) all.push_back(r);
        }
    }
    return all;
}

// All of them once, then those near the best again in turn: clocks and caches have settled by then. Nothing
// where none runs: the heuristic offers some that the library then refuses.
std::optional<std::size_t> race(cublasLtHandle_t handle, const Plan& plan, const Gemm& op, Context& context,
                                const std::vector<Candidate>& found) try {
    Timer timer(handle, plan, op, context);
    timer.time(found[0]);
    std::vector<double> us(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) us[i] = timer.time(found[i]);
    const double near =
        std::min(1.08 * *std::min_element(us.begin(), us.end()), std::numeric_limits<double>::max());
    std::vector<std::size_t> finalists;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (us[i] <= near) finalists.push_back(i);
    }
    for (int round = 0; round < 3 && finalists.size() > 1; ++round) {
        for (const std::size_t i : finalists)
            us[i] = round == 0 ? timer.time(found[i]) : std::min(us[i], timer.time(found[i]));
    }
    const auto faster = [&](std::size_t a, std::size_t b) { return us[a] < us[b]; };
    if (finalists.empty()) return std::nullopt;
    return *std::min_element(finalists.begin(), finalists.end(), faster);
} catch (const Error&) {
    return 0;  // no memory to time with: the heuristic's own favourite
}

}  // namespace

std::optional<Candidate> fastest(cublasLtHandle_t handle, const Plan& plan, const Gemm& op,
                                 Context& context) {
    const std::vector<Candidate> found = candidates(handle, plan, op);
    if (found.empty()) return std::nullopt;
    const std::optional<std::size_t> best = race(handle, plan, op, context, found);
    return best ? std::optional(found[*best]) : std::nullopt;
}

}  // namespace weft::gemm
#endif
