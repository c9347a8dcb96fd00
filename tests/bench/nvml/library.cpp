// NVIDIA's management library as a test plays it: of one card, whose clock says what the test has told it to.
#include <deque>

namespace {

struct Said {
    unsigned mhz;
    unsigned long long reasons;
};
std::deque<Said> said;  // the next reading first; of the last one there is no end

constexpr int kSuccess = 0, kSmClock = 1, kInvalid = 2;

}  // namespace

extern "C" {

void weft_test_clock_says(unsigned mhz, unsigned long long reasons) { said.push_back({mhz, reasons}); }
void weft_test_clock_forgets() { said.clear(); }

int nvmlInit_v2() { return kSuccess; }
int nvmlShutdown() { return kSuccess; }
int nvmlDeviceGetHandleByPciBusId_v2(const char*, void** device) {
    *device = &said;
    return kSuccess;
}
int nvmlDeviceGetClockInfo(void* device, int clock, unsigned* mhz) {
    if (device != &said || clock != kSmClock || said.empty()) return kInvalid;
    *mhz = said.front().mhz;
    return kSuccess;
}
// Asked after the clock: the reading is complete.
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
    if (device != &said || said.empty()) return kInvalid;
    *reasons = said.front().reasons;
    if (said.size() > 1) said.pop_front();
    return kSuccess;
}
}
