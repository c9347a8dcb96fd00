// The tests of the execution model and of the PTX models once more, compiled by nvcc and run on a GPU.
#include "execution.cpp"
#include "models.cpp"
#include "tma.cpp"
#include "wgmma.cpp"
