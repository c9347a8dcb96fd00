// The emulator's tests. Planted races must not fail the process: each is looked for at its launch.
#include <gmock/gmock.h>

#include "emulator/race_hook.h"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "exitcode=0:suppress_equal_addresses=0"; }
#endif

int main(int argc, char** argv) {
    testing::InitGoogleMock(&argc, argv);
    return RUN_ALL_TESTS();
}
