// The op tests' main: a race in a kernel fails its launch, and a death says which case it was.
#include <gmock/gmock.h>

#include "verify/trial.h"

#if WEFT_HAS_EMULATOR
#include "emulator/race_hook.h"
#endif

int main(int argc, char** argv) {
    testing::InitGoogleMock(&argc, argv);
    weft::announce_deaths();
    return RUN_ALL_TESTS();
}
