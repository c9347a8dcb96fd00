// A launch: the device's limits, then the grid cluster by cluster.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "emulator/async_operation.h"
#include "emulator/runtime.h"
#include "weft/error.h"

namespace weft::emulator {
namespace {

// With ThreadSanitizer a fiber is a thread, and what it does is in order: two blocks that ran on the same
// fibers could not race. So clusters take turns with several sets of fibers, and start at another fiber each
// time.
constexpr unsigned kMaxTsanFibers = 8000;

unsigned fiber_sets(unsigned fibers) {
    if (!WEFT_TSAN) return 1;
    return std::clamp(1024 / fibers, fibers * 2 <= kMaxTsanFibers ? 2u : 1u, 4u);
}

[[noreturn]] void refuse(const LaunchConfig& config, const std::string& why) {
    throw Error(ErrorCode::emulator_fault, config.name, "", "cannot be launched: " + why);
}

}  // namespace

void check_limits(const LaunchConfig& config) {
    const dim3 &grid = config.grid, &block = config.block;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (threads == 0 || threads > kMaxThreads || block.x > 1024 || block.y > 1024 || block.z > 64) {
        refuse(config,
               fmt::format("blocks of ({},{},{}) threads: 1 to {} are possible, (1024,1024,64) at most",
                           block.x, block.y, block.z, kMaxThreads));
    }
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
        grid.z > 65535) {
        refuse(config,
               fmt::format("a grid of ({},{},{}) blocks: (1,1,1) to (2147483647,65535,65535) are possible",
                           grid.x, grid.y, grid.z));
    }
    if (config.cluster == 0 || config.cluster > kMaxCluster || grid.x % config.cluster != 0) {
        refuse(config,
               fmt::format("clusters of {} in a grid of {} along x: 1 to {}, and a divisor of the grid",
                           config.cluster, grid.x, kMaxCluster));
    }
    if (config.dynamic_shared > kMaxShared) {
        refuse(config, fmt::format("{} bytes of dynamic shared memory: a block has {}", config.dynamic_shared,
                                   kMaxShared));
    }
    if (WEFT_TSAN && threads * config.cluster > kMaxTsanFibers) {
        refuse(config, fmt::format("{} threads in a cluster: ThreadSanitizer knows {} at most",
                                   threads * config.cluster, kMaxTsanFibers));
    }
}

Runtime::Runtime() : async(new AsyncProxy), block_storage_(new Block[kMaxCluster]) {
    blocks = block_storage_.get();
    if (const char* seed = std::getenv("WEFT_EMULATOR_SEED")) order = std::strtoull(seed, nullptr, 0);
    watch_sanitizers();
}

void Runtime::prepare(unsigned threads) {
    const Unobserved scope;  // threads read what is here before they wait for what was before the launch
    thread_count_ = threads;
    const size_t fibers = size_t{threads} * fiber_sets(threads);
    fibers_.reserve(fibers);
    ready_.reserve(threads);
    if (threads <= thread_capacity_) return;
    thread_capacity_ = threads;
    thread_storage_.reset(new Thread[threads]());
    threads_ = thread_storage_.get();
}

void Runtime::set_up(Block& block, unsigned rank) {
    block.exited = 0;
    block.started = false;
    block.rank = rank;
    block.count = config->block.x * config->block.y * config->block.z;
    block.threads = &threads_[size_t{rank} * block.count];
    block.syncs = new Syncs;
    for (unsigned i = 0; i < kNamedBarriers; ++i) {
        block.barriers[i] = {};
        block.barriers[i].expected = block.count;
        block.barriers[i].sync = &block.syncs->block[i];
    }
    for (unsigned i = 0; i * kWarp < block.count; ++i) {
        const unsigned lanes = std::min(kWarp, block.count - i * kWarp);
        Warp& warp = block.warps[i];
        warp.live = lanes == kWarp ? ~0u : (1u << lanes) - 1;
        warp.arrived = warp.generation = 0;
        warp.lanes = block.threads + size_t{i} * kWarp;
        warp.sync = &block.syncs->warp[i];
    }
    for (Warpgroup& group : block.warpgroups) group = {};
    block.mbarrier_count = 0;
    set_up_shared(*this, block);
}

void Runtime::set_up(Thread& thread, Block& block, unsigned linear, uint3 block_index) {
    const dim3& shape = config->block;
    const unsigned sets = fiber_sets(thread_count_), sequence = static_cast<unsigned>(sequence_);
    const unsigned position = static_cast<unsigned>(&thread - threads_);
    const unsigned index = sequence % sets * thread_count_ + (position + sequence * 17) % thread_count_;
    while (fibers_.size() <= index) fibers_.push_back(std::make_unique<Fiber>(&Runtime::run_fiber));
    thread = {};
    thread.thread_index = {linear % shape.x, linear / shape.x % shape.y, linear / shape.x / shape.y};
    thread.block_index = block_index;
    thread.config = config;
    thread.block = &block;
    thread.warp = &block.warps[linear / kWarp];
    thread.fiber = fibers_[index].get();
    thread.linear = linear;
    thread.lane = linear % kWarp;
    thread.state = State::ready;
    if (WEFT_TSAN) thread.fiber->set_name(describe(thread).c_str());
    ready_.push(thread);
}

void Runtime::check_end() {
    if (!failed_) {
        for (unsigned i = 0; i < thread_count_; ++i) {
            if (threads_[i].state == State::exited) continue;
            try {
                report_deadlock();
            } catch (...) {
                fail(std::current_exception());
            }
            break;
        }
    }
    if (failed_) abandon();
}

void Runtime::run_cluster(uint3 first_block) {
    std::unique_ptr<SyncPair> cluster_sync;
    {
        const Unobserved scope;
        cluster_sync.reset(new SyncPair);
        cluster_barrier = {};
        cluster_barrier.sync = cluster_sync.get();
        cluster_live = cluster_barrier.expected = thread_count_;
        async->start(*this);
        const unsigned block_threads = thread_count_ / config->cluster;
        ready_.start(order, config->cluster, (block_threads + kWarp - 1) / kWarp);
        for (unsigned rank = 0; rank < config->cluster; ++rank) {
            Block& block = blocks[rank];
            set_up(block, rank);
            const uint3 index{first_block.x + rank, first_block.y, first_block.z};
            for (unsigned i = 0; i < block.count; ++i) set_up(block.threads[i], block, i, index);
        }
    }
    for (unsigned rank = 0; rank < config->cluster; ++rank) tsan_release(&blocks[rank].syncs->start);
    run_until_idle();
    check_end();
    const Unobserved scope;
    async->clear();
    for (unsigned rank = 0; rank < config->cluster; ++rank) {
        retire_shared(*this, blocks[rank], true);
        delete blocks[rank].syncs;
    }
    cluster_sync.reset();
    ++sequence_;
    if (!std::exchange(failed_, false)) return;
    tsan_acquire(launch_end);
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Runtime::launch(const LaunchConfig& launched, void (*kernel)(const void*), const void* arguments) {
    if (current_thread) fault("launches a kernel");
    check_limits(launched);
    if (!any_stream && launched.stream != stream) {
        refuse(launched,
               "it is on another stream than its context's: nothing orders it with the calls around it");
    }
    {
        const Unobserved scope;  // threads read it before they wait for what was before the launch
        config_storage = launched;
    }
    config = &config_storage;
    kernel_ = kernel;
    arguments_ = arguments;
    shared_key_count = 0;
    static_bytes = 0;
    waited_for_dependency = false;
    ready_.seed(order);
    prepare(launched.block.x * launched.block.y * launched.block.z * launched.cluster);
    const unsigned races_before = race_reports();
    const auto end = std::make_unique<SyncPair>();
    launch_end = end.get();

    const dim3 clusters(launched.grid.x / launched.cluster, launched.grid.y, launched.grid.z);
    const uint64_t count = uint64_t{clusters.x} * clusters.y * clusters.z;
    // A random order of the clusters: a walk with a stride that has no factor in common with their number.
    uint64_t stride = 1, start = 0;
    if (order != 0 && count > 1) {
        start = ready_.random(count);
        do stride = 1 + ready_.random(count - 1);
        while (std::gcd(stride, count) != 1);
    }
    for (uint64_t i = 0, at = start; i < count; ++i, at = (at + stride) % count) {
        run_cluster({static_cast<unsigned>(at % clusters.x) * launched.cluster,
                     static_cast<unsigned>(at / clusters.x % clusters.y),
                     static_cast<unsigned>(at / clusters.x / clusters.y)});
    }
    tsan_acquire(launch_end);
    if (launched.dependent && !waited_for_dependency) {
        refuse(launched, "it was launched as dependent, but no thread called dependency_wait");
    }
    if (race_reports() != races_before) {
        refuse(launched,
               fmt::format("ThreadSanitizer reported {} data races in it", race_reports() - races_before));
    }
}

void launch(const LaunchConfig& config, void (*kernel)(const void*), const void* arguments) {
    Runtime::here().launch(config, kernel, arguments);
}

StreamScope::StreamScope(const void* stream)
    : before_(std::exchange(Runtime::here().stream, stream)),
      any_before_(std::exchange(Runtime::here().any_stream, false)) {}
StreamScope::~StreamScope() {
    Runtime::here().stream = before_;
    Runtime::here().any_stream = any_before_;
}

void set_order(uint64_t seed) { Runtime::here().order = seed; }
uint64_t order() { return Runtime::here().order; }
void set_poison(uint8_t byte) { Runtime::here().poison = byte; }
uint8_t poison() { return Runtime::here().poison; }

}  // namespace weft::emulator
