// Include in one source of an executable built with ThreadSanitizer: then a launch that races throws. The
// runtime takes this hook from the executable only, which is why a library cannot bring it.
#pragma once

namespace weft::emulator {
void count_race_report();
}

#if defined(__SANITIZE_THREAD__)
extern "C" __attribute__((no_sanitize("thread"))) void __tsan_on_report(void*) {
    weft::emulator::count_race_report();
}
#endif
