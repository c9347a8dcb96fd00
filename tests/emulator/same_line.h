// Two barriers on one line of two files.
#pragma once

#line 7 "one.cuh"
inline void meet_in_one() { __syncthreads(); }
#line 7 "other.cuh"
inline void meet_in_other() { __syncthreads(); }
